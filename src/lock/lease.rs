//! A lease: a lock that was granted, with the deadline that counts.

use std::time::Duration;

use super::{FencingToken, Holder, Permits, RenewalRequest, Request, StoreError};
use crate::clock::{BootTime, Deadline};

/// A lock that was granted, held until its deadline.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The request that was granted: a renewal and a release repeat it.
    pub request: Request,
    /// The fencing token of the grant; renewals leave it as it is.
    pub fence: FencingToken,
    /// When the request that last extended the lease was sent.
    pub renewed: BootTime,
    /// Somebody else took it and gives it back.
    pub is_borrowed: bool,
}

#[derive(Clone, Debug)]
pub enum LossCause {
    /// Somebody else released it with its owner token, as [`Renewal::Released`] says.
    Released,
    /// It ended, or was deleted, and nobody holds the lock.
    NotHeld,
    /// It was broken or deleted, or granted to another, who holds it now if the store says so.
    Taken(Option<Box<Holder>>),
    /// No renewal succeeded before it ended; why the last one failed, if that is known.
    Expired(Option<StoreError>),
}

impl Lease {
    pub fn new(request: Request, fence: FencingToken, sent: BootTime) -> Self {
        Lease { request, fence, renewed: sent, is_borrowed: false }
    }

    /// A lease that somebody else took, and that a request sent at `sent` found held or extended.
    pub fn borrowed(request: Request, fence: FencingToken, sent: BootTime) -> Self {
        Lease { is_borrowed: true, ..Lease::new(request, fence, sent) }
    }

    /// Its permits, where the store gave numbers.
    pub fn permits(&self) -> &Permits {
        &self.request.metadata.permits
    }

    /// The deadline: from here on another may hold the lock. It counts from before the request was
    /// sent, because the store may have counted from any moment after that.
    pub fn deadline(&self) -> Deadline {
        self.renewed.plus(self.request.ttl.validity())
    }

    /// When the next renewal is due: after a third of the TTL, so that two may fail.
    pub fn renewal_due(&self) -> BootTime {
        self.renewed.plus(self.request.ttl.duration() / 3)
    }

    pub fn renewal(&self, attempt: Duration, until: Deadline) -> RenewalRequest {
        RenewalRequest { request: self.request.clone(), fence: Some(self.fence), attempt, until }
    }

    /// The answer to a renewal that was sent at `sent` said that the lease was extended.
    pub fn extend(&mut self, sent: BootTime) {
        self.renewed = self.renewed.max(sent);
    }

    /// The answer to a renewal said that it is not held with this owner token.
    pub fn lost_to(&self, holder: Option<Box<Holder>>) -> LossCause {
        match holder {
            None if self.is_borrowed => LossCause::NotHeld,
            holder => LossCause::Taken(holder),
        }
    }

    /// When the first of these leases ends; never, where there is none.
    pub fn first_deadline<'a>(leases: impl IntoIterator<Item = &'a Lease>) -> Deadline {
        leases.into_iter().map(Lease::deadline).min().unwrap_or(Deadline::NEVER)
    }

    /// The time since the lease was last known to be in the store.
    pub fn unconfirmed(&self) -> Duration {
        BootTime::now().since(self.renewed)
    }
}
