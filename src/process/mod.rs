//! The job: the command and every process it started, and the guard that makes sure that it dies
//! in time; and processes that go on without us. Nothing here knows a lock: a job has a deadline, which moves.

mod allowance;
mod asked;
mod command;
mod daemon;
mod entry;
mod fork;
mod guard;
mod inherited;
mod job;
mod killing;
mod parent;
mod priority;
mod signals;
mod tree;
mod watched;
mod wire;

pub use asked::ask;
pub use command::CommandLine;
pub use daemon::detach;
pub(crate) use entry::start_with;
pub use guard::Leftovers;
pub use inherited::{forbid_core_dumps, stdout_was_closed, take_over};
pub use job::{Control, Event, GuardLoss, Job, NotStarted};
pub use signals::{Arrived, Signals, die_of};
pub use tree::is_below;
pub use watched::Watched;
pub use wire::{Ended, Line, Status};
