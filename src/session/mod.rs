//! What `run` and `acquire` share: acquisition, nesting, supervision, and what becomes of renewals.

mod acquisition;
pub mod eval_guard;
mod inherited_lock;
pub mod label;
mod nesting;
pub mod release_notice;
pub mod renewal_events;
pub mod supervise;
pub mod token_file;
pub mod while_pid;

pub use acquisition::{Acquisition, in_order};
pub use inherited_lock::{FENCE, InheritedLock, KEY, TOKEN, environment, lines};
pub use nesting::{InterimKeeper, Nesting};
