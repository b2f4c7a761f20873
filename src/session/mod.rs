//! What the subcommands share: the store they use, acquisition, nesting, supervision, renewals.

mod acquisition;
mod context;
pub mod eval_guard;
pub mod history;
mod inherited_lock;
mod nesting;
pub mod release_notice;
pub mod renewal_events;
pub mod supervise;
pub mod while_pid;

pub use acquisition::{Abort, Acquisition};
pub use context::{Context, report_failure};
pub use inherited_lock::environment;
pub use nesting::{InterimKeeper, Nesting};
