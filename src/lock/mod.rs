//! The lock model: what a lock is, how it is asked for, waited for and kept.
//!
//! Nothing here knows a store or a process; stores implement [`Store`].

mod finding;
mod keeper;
mod keeping;
mod key;
mod kind;
mod lease;
mod metadata;
mod request;
mod store;
mod terms;
mod token;
mod ttl;
mod waiting;

pub use finding::{Finding, Level, Report};
pub use keeper::Keeper;
pub use keeping::{Hurry, Kept, Progress};
pub use key::Key;
pub use kind::Kind;
pub use lease::Lease;
pub use metadata::{Metadata, unix_millis};
pub use request::Request;
pub use store::{
    Broken, Busy, Holding, LockStatus, Patience, Renewal, Store, StoreError, Survey, Take, Waiter,
};
pub use terms::{Terms, millis};
pub use token::{FencingToken, OwnerToken};
pub use ttl::{DurationText, Ttl, drift_over};
pub use waiting::{NotTaken, Observer, Wait, acquire};
