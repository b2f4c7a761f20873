//! The job: the command and every process it started, the guard that kills them in time, and processes that outlive redlock.
//! Nothing here knows a lock: a job has a deadline, which moves.

mod capture;
mod command_parent;
mod deadlines;
mod descendants;
mod dispositions;
mod end_notice;
mod fork;
mod group_signals;
mod guard;
mod guard_process;
mod guard_times;
mod guarded_job;
mod job_control;
mod job_end;
mod job_start;
mod kill;
mod kill_schedule;
mod passed_on;
mod pidfd;
mod priority;
mod process;
mod protocol;
mod relay;
mod side_job;
mod signals;
mod spawn;
mod start;
mod strays;
mod streams;
pub mod title;
mod watchdog;

pub use capture::capture;
pub use deadlines::Reserve;
pub use dispositions::{forbid_core_dumps, normalise};
pub use fork::{detach, fork_off};
pub use guarded_job::{GuardLoss, Job, JobEvent};
pub use job_control::JobControl;
pub use job_start::NotStarted;
pub use pidfd::{Pidfd, is_gone, own_pid_namespace};
pub use process::is_below;
#[cfg(any(test, fuzzing))]
pub use protocol::read_packet;
pub use protocol::{Channel, ExitStatus, GuardRequest, JobEnd, LeftoverPolicy};
pub use side_job::{SideJob, SideJobEnd};
pub use signals::{Arrived, Signals, die_of};
pub use strays::Strays;
pub use streams::stdout_was_closed;
