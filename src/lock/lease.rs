//! A lease: a lock that was granted, with the deadline that counts.

use std::time::Duration;

use super::{FencingToken, Request};
use crate::clock::{BootTime, Deadline};

/// A lock that was granted, held until its deadline.
#[derive(Clone, Debug)]
pub struct Lease {
    /// What was granted: a renewal and a release say the same again.
    pub request: Request,
    /// Of the grant; renewals leave it as it is.
    pub fence: FencingToken,
    /// When the request that last extended the lease was sent.
    renewed: BootTime,
    /// Somebody else took it and gives it back.
    pub is_borrowed: bool,
}

impl Lease {
    /// A lease granted by a request that was sent at `sent`.
    pub fn new(request: Request, fence: FencingToken, sent: BootTime) -> Self {
        Lease { request, fence, renewed: sent, is_borrowed: false }
    }

    /// A lease that somebody else took, and that a request sent at `sent` found held or extended.
    pub fn borrowed(request: Request, fence: FencingToken, sent: BootTime) -> Self {
        Lease { is_borrowed: true, ..Lease::new(request, fence, sent) }
    }

    /// When the request that last extended the lease was sent.
    pub fn renewed(&self) -> BootTime {
        self.renewed
    }

    /// The fence: from here on another may hold the lock. Counted from before the request was
    /// sent, because the store may have counted from any moment after that.
    pub fn deadline(&self) -> Deadline {
        self.renewed.plus(self.request.ttl.validity())
    }

    /// When the next renewal is due: after a third of the TTL, so that two may fail.
    pub fn renewal_due(&self) -> BootTime {
        self.renewed.plus(self.request.ttl.duration() / 3)
    }

    /// The answer to a renewal that was sent at `sent` said that the lease was extended.
    pub fn extend(&mut self, sent: BootTime) {
        self.renewed = self.renewed.max(sent);
    }

    /// When the first of these leases ends; never, where there is none.
    pub fn first_deadline(leases: &[Lease]) -> Deadline {
        leases.iter().map(Lease::deadline).min().unwrap_or(Deadline::NEVER)
    }

    /// How long ago the lease was last known to be in the store.
    pub fn unconfirmed(&self) -> Duration {
        BootTime::now().since(self.renewed)
    }
}
