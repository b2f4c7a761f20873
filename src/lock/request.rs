//! A request for a lock.

use std::time::Duration;

use super::{Key, Metadata, Mode, OwnerToken, Permits, Ttl};

/// A request for one lock. Repeating it is safe when an answer was lost: the store recognises the owner token.
#[derive(Clone, Debug)]
pub struct Request {
    pub key: Key,
    pub mode: Mode,
    /// The same in all requests that are made together.
    pub token: OwnerToken,
    /// The time that the lease lives without a renewal, by the clock of the store.
    pub ttl: Ttl,
    /// A release earlier than this after the grant leaves the lock to its time.
    pub min_hold: Duration,
    pub metadata: Metadata,
}

impl Request {
    /// A request that says nothing about the one who makes it.
    pub fn new(key: Key, mode: Mode, token: OwnerToken, ttl: Ttl) -> Request {
        Request { key, mode, token, ttl, min_hold: Duration::ZERO, metadata: Metadata::default() }
    }

    /// The request that was granted with these permits, which may be more than it takes: a job around it has them. A renewal
    /// repeats it, so that a lock that heals keeps its numbers.
    pub fn with_permits(self, permits: Permits) -> Request {
        let take = u32::try_from(permits.numbers().len()).unwrap_or(0).max(self.metadata.take);
        let metadata = Metadata { take, permits, ..self.metadata };
        Request { metadata, ..self }
    }

    /// The request for a lock that the process `keeper` holds for the process `pid`.
    pub fn kept_by(self, keeper: u32, pid: u32) -> Request {
        let metadata = Metadata { pid: keeper, while_pid: Some(pid), ..self.metadata };
        Request { metadata, ..self }
    }
}
