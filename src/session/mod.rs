//! The parts that subcommands share: the store they use, acquisition, nesting, supervision, renewals.

mod acquisition;
mod breaking;
mod context;
pub mod eval_stop;
pub mod history;
mod hook_set;
mod hooks;
mod inherited_lock;
mod nesting;
pub mod once_per;
pub mod release_notice;
pub mod renewal_events;
pub mod sequence;
mod supersession;
pub mod supervise;
mod survey;
pub mod while_pid;

pub use acquisition::{Abort, Acquisition};
pub use breaking::{AskedAbout, break_lock};
pub use context::{Context, report_failure};
pub use hooks::{HookControl, Hooks};
#[cfg(any(test, fuzzing))]
pub use inherited_lock::read_outer;
pub use inherited_lock::{InheritedLock, environment};
pub use nesting::{InterimKeeper, Nesting};
pub use survey::{refuse_patterns, survey, survey_within};
