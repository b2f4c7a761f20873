//! The job: the command and every process it started, and the guard that makes sure that it dies
//! in time; and processes that go on without us. Nothing here knows a lock: a job has a deadline, which moves.

mod capture;
mod command_parent;
mod daemon;
mod descendants;
mod dispositions;
mod entry;
mod fork;
mod guard;
mod handle;
mod kill;
mod kill_margin;
mod pidfd;
mod priority;
mod protocol;
mod signals;
mod spawn;

pub use capture::ask;
pub use daemon::detach;
pub use descendants::is_below;
pub use dispositions::{forbid_core_dumps, stdout_was_closed, take_over};
pub use guard::LeftoverPolicy;
pub use handle::{GuardLoss, Job, JobControl, JobEvent, NotStarted};
pub use pidfd::Pidfd;
pub use protocol::{Channel, ExitStatus, JobEnd};
pub use signals::{Arrived, Signals, die_of};
pub use spawn::CommandLine;
