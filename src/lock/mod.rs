//! The lock model: what a lock is, how it is asked for, waited for and kept.
//!
//! Nothing here knows a store or a process; stores implement [`Store`].

mod acquire;
mod acquire_failure;
#[cfg(test)]
mod acquire_test;
mod breaker;
mod capabilities;
mod duration;
#[cfg(test)]
mod fake_store;
mod history;
mod keeper;
mod key;
mod lease;
mod metadata;
mod mode;
mod patience;
mod permits;
mod priority;
mod renewal;
#[cfg(test)]
mod renewal_test;
mod request;
mod status;
mod store;
mod store_error;
mod timeout;
mod token;

pub use acquire::acquire;
pub use acquire_failure::{AcquireFailure, NotAcquired};
pub use breaker::{BreakScope, Breaker};
pub use capabilities::{Capabilities, Unsupported, Wanted};
pub use duration::{DurationText, Ttl, drift_over};
pub use history::{History, RETENTION as HISTORY_RETENTION, RunRecord};
pub use keeper::{Keeper, KeeperEnd};
pub use key::Key;
pub use lease::{Lease, LossCause};
pub use metadata::{Metadata, unix_millis};
pub use mode::Mode;
pub use patience::{LockChoice, Patience, Wait, WaitProgress};
pub use permits::Permits;
pub use priority::Priority;
pub use renewal::{Cancellation, LeaseEnd, Progress, ReportProgress};
pub use request::Request;
pub use status::{Broken, Holder, LockStatus, Resized, Survey, Waiter};
pub use store::{
    AcquireOutcome, Busy, Grant, OnRenewal, OneOutcome, ReleaseOutcome, Renewal, RenewalRequest, Store,
    StoreAdmin, one_after_the_other,
};
pub use store_error::{Result, StoreError};
pub use timeout::Timeout;
pub use token::{FencingToken, OwnerToken};
