//! The lock model: what a lock is, how it is asked for, waited for and kept.
//!
//! Nothing here knows a store or a process; stores implement [`Store`].

mod acquire;
mod capabilities;
mod duration;
mod holder;
mod keeper;
mod key;
mod lease;
mod mode;
mod renewal;
mod request;
mod status;
mod store;
mod store_error;
mod timeout;
mod token;

pub use acquire::{NotAcquired, Wait, WaitObserver, acquire};
pub use capabilities::{Capabilities, Support, TokenMint, Unsupported, Wanted};
pub use duration::{DurationText, Ttl, drift_over};
pub use holder::{Metadata, unix_millis};
pub use keeper::Keeper;
pub use key::Key;
pub use lease::Lease;
pub use mode::Mode;
pub use renewal::{Cancellation, LeaseEnd, Progress};
pub use request::Request;
pub use status::{Broken, Holder, LockStatus, Survey, Waiter};
pub use store::{AcquireOutcome, Busy, Grant, OnRenewal, Renewal, RenewalRequest, Store, StoreAdmin};
pub use store_error::StoreError;
pub use timeout::Timeout;
pub use token::{FencingToken, OwnerToken};
