//! The answers of the scripts, as the lock model knows them.

use std::time::Duration;

use redis::Value;

use super::script::{items, number, text};
use crate::lock::{
    Broken, Busy, FencingToken, Holding, Key, Kind, LockStatus, Metadata, Renewal, Take, Waiter,
};

/// The answer of `take.lua`.
pub enum Taken {
    Granted(FencingToken),
    Busy {
        busy: Busy,
        ticket: String,
        /// The TTL of the holder's lease; zero for a holder that is not a redlock.
        ttl: Duration,
        /// The place in the queue is a new one.
        newly_queued: bool,
    },
    OtherKind(Kind),
    /// The server lost its data; a lease may be alive all the same.
    Vanished {
        ticket: String,
    },
}

impl From<Taken> for Take {
    fn from(taken: Taken) -> Take {
        match taken {
            Taken::Granted(fence) => Take::Granted(fence),
            Taken::Busy { busy, .. } => Take::Busy(busy),
            Taken::Vanished { .. } | Taken::OtherKind(_) => Take::Busy(Busy::default()),
        }
    }
}

/// `None` for a reply that makes no sense.
pub fn taken(reply: Value) -> Option<Taken> {
    let reply = items(reply);
    Some(match text(reply.first()).as_str() {
        "granted" => {
            Taken::Granted(FencingToken(u64::try_from(number(reply.get(1))).ok().filter(|fence| *fence > 0)?))
        }
        "kind" => Taken::OtherKind(kind(&text(reply.get(1)))),
        "vanished" => Taken::Vanished { ticket: text(reply.get(1)) },
        "busy" => {
            let holder = reply.get(1).cloned().map(items).unwrap_or_default();
            Taken::Busy {
                ttl: Duration::from_millis(number(holder.get(4)).max(0) as u64),
                busy: Busy { holder: Some(holding(&holder)), ahead: number(reply.get(2)).max(0) as usize },
                ticket: text(reply.get(3)),
                newly_queued: number(reply.get(4)) == 1,
            }
        }
        _ => return None,
    })
}

/// `None` for a reply that makes no sense.
pub fn renewed(reply: Value) -> Option<Renewal> {
    let reply = items(reply);
    match text(reply.first()).as_str() {
        "extended" => Some(Renewal::Extended),
        "healed" => Some(Renewal::Healed),
        "released" => Some(Renewal::Released),
        "lost" => Some(Renewal::Lost(reply.get(1).cloned().map(|holder| holding(&items(holder))))),
        _ => None,
    }
}

/// `None` for a reply that makes no sense.
pub fn released(reply: Value) -> Option<bool> {
    match reply {
        Value::Int(released) => Some(released == 1),
        _ => None,
    }
}

/// `None` for a reply that makes no sense.
pub fn broken(reply: Value) -> Option<Broken> {
    let reply = items(reply);
    let holder = holding(&reply.get(1).cloned().map(items).unwrap_or_default());
    match text(reply.first()).as_str() {
        "free" => Some(Broken::Free),
        "told" => Some(Broken::Told(holder)),
        "other" => Some(Broken::Other(holder)),
        "freed" => Some(Broken::Freed(holder)),
        _ => None,
    }
}

pub fn status(key: Key, reply: Value) -> LockStatus {
    let mut reply = items(reply).into_iter();
    let held = text(reply.next().as_ref());
    let holders = reply.next().map(items).unwrap_or_default();
    let queue = reply.next().map(items).unwrap_or_default();
    let mut holders: Vec<Holding> = holders.into_iter().map(|holder| holding(&items(holder))).collect();
    holders.sort_by_key(|holder| holder.fence);
    LockStatus {
        key,
        kind: kind(&held),
        holders,
        waiters: queue.iter().map(|member| waiter(&text(Some(member)))).collect(),
    }
}

/// What is left of a lease, from PTTL: `None` when it never expires.
pub fn left(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// See `describe` in `scripts/queue.lua`.
fn holding(description: &[Value]) -> Holding {
    let metadata = text(description.first());
    let positive = |index: usize| {
        Some(number(description.get(index))).filter(|number| *number > 0).map(|number| number as u64)
    };
    Holding {
        metadata: (!metadata.is_empty()).then(|| Metadata::from_untrusted(&metadata)),
        fence: positive(1).map(FencingToken),
        since: positive(2),
        left: left(number(description.get(3))),
        broken: number(description.get(5)) == 1,
    }
}

/// A member of the queue is the owner token, the kind, the metadata, with spaces between.
fn waiter(member: &str) -> Waiter {
    let mut words = member.splitn(3, ' ').skip(1);
    let kind = kind(words.next().unwrap_or_default());
    Waiter { kind, metadata: Metadata::from_untrusted(words.next().unwrap_or_default()) }
}

/// What the scripts call a kind: never an owner token of another library.
pub fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::Shared => "shared:".to_owned(),
        other => other.to_string(),
    }
}

fn kind(name: &str) -> Kind {
    name.trim_end_matches(':').parse().unwrap_or_default()
}
