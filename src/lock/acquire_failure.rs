//! Why locks were not acquired.

use std::time::Duration;

use super::{Busy, StoreError};

#[derive(Debug)]
pub struct NotAcquired {
    pub why: AcquireFailure,
    /// Why what was granted, or may be later, could not be cancelled: the locks are free when their leases end.
    pub failed_release: Option<Box<StoreError>>,
}

#[derive(Debug)]
pub enum AcquireFailure {
    Busy(Box<Busy>),
    /// As many waiters as are allowed were in line before this one.
    QueueFull(Box<Busy>, usize),
    /// The wait ran out, after this long.
    TimedOut(Box<Busy>, Duration),
    Interrupted,
    /// The grant came so late that the job could not be stopped within it.
    TooSlow {
        took: Duration,
    },
    Store(StoreError),
}

impl From<StoreError> for AcquireFailure {
    fn from(error: StoreError) -> AcquireFailure {
        match error {
            StoreError::Interrupted => AcquireFailure::Interrupted,
            other => AcquireFailure::Store(other),
        }
    }
}
