use std::time::Duration;

use super::{Key, Kind, Metadata, OwnerToken, Ttl};

/// One wish for a lock. Asking again with the same request is asking for the same thing: the
/// owner token in it makes that safe when an answer was lost.
#[derive(Clone, Debug)]
pub struct Request {
    pub key: Key,
    pub kind: Kind,
    pub token: OwnerToken,
    pub ttl: Ttl,
    /// A release earlier than this after the grant leaves the lock to its time.
    pub min_hold: Duration,
    pub metadata: Metadata,
    /// The processes that keep the lock alive. A store on the same host frees the lock as soon as
    /// all of them are gone; empty means that the TTL alone ends the lease.
    pub pids: Vec<u32>,
}
