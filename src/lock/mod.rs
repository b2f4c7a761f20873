//! The lock model: what a lock is, how it is asked for, waited for and kept.
//!
//! Nothing here knows a store or a process; stores implement [`Store`].

mod acquire;
mod duration;
mod holder;
mod keeper;
mod key;
mod lease;
mod mode;
mod renewal;
mod request;
mod store;
mod token;

pub use acquire::{NotAcquired, Wait, WaitObserver, acquire};
pub use duration::{DurationText, Ttl, drift_over};
pub use holder::{Metadata, unix_millis};
pub use keeper::Keeper;
pub use key::Key;
pub use lease::Lease;
pub use mode::Mode;
pub use renewal::{Cancellation, LeaseEnd, Progress};
pub use request::Request;
pub use store::{
    Broken, Busy, Holder, LockStatus, Renewal, Store, StoreError, Survey, Take, Timeout, Waiter,
};
pub use token::{FencingToken, OwnerToken};
