use std::time::Duration;

use super::{Key, Metadata, Mode, OwnerToken, Ttl};

/// One wish for a lock. Asking again with the same request is asking for the same thing: the
/// owner token in it makes that safe when an answer was lost.
#[derive(Clone, Debug)]
pub struct Request {
    pub key: Key,
    pub kind: Mode,
    /// The same in all requests that are made together.
    pub token: OwnerToken,
    /// How long the lease lives without a renewal, by the clock of the store.
    pub ttl: Ttl,
    /// A release earlier than this after the grant leaves the lock to its time.
    pub min_hold: Duration,
    /// As many replicas of the server have to have the lock before it counts as taken, or as renewed.
    pub replicas: u8,
    /// Shown to others.
    pub metadata: Metadata,
    /// The processes that keep the lock alive. A store on the same host frees the lock as soon as
    /// all of them are gone; empty means that the TTL alone ends the lease.
    pub pids: Vec<u32>,
}

impl Request {
    /// The request for a lock that the process `keeper` holds for the process `pid`. Where the keeper alone
    /// dies, the process goes on, and the lock stays until the end of its lease.
    pub fn kept_by(self, keeper: u32, pid: u32) -> Request {
        let metadata = Metadata { pid: keeper, while_pid: Some(pid), ..self.metadata };
        Request { metadata, pids: vec![keeper, pid], ..self }
    }
}
