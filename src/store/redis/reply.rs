//! The answers of the scripts, as the lock model knows them.

use std::time::Duration;

use redis::Value;

use super::script::{items, number, text};
use crate::lock::{
    Broken, Busy, FencingToken, Holder, Key, LockStatus, Metadata, Mode, Renewal, Request, StoreError, Waiter,
};

/// The answer of `take.lua`.
pub enum Taken {
    /// One for each lock that was asked for.
    Granted(Vec<FencingToken>),
    Busy {
        busy: Box<Busy>,
        ticket: String,
        /// The TTL of the holder's lease; zero for a holder that is not a redlock.
        ttl: Duration,
        /// The place in the queue is a new one.
        newly_queued: bool,
        /// The lock was handed over to the holder, who has not confirmed it so far.
        is_claim: bool,
    },
    /// The server lost its data; a lease may be alive all the same.
    Vanished { ticket: String },
}

/// The answer to these requests; `None` for a reply that makes no sense.
pub fn taken(reply: Value, requests: &[Request]) -> Option<Result<Taken, StoreError>> {
    let reply = items(reply);
    let key = || {
        let index = usize::try_from(number(reply.get(1))).ok()?.checked_sub(1)?;
        requests.get(index).map(|request| request.key.clone())
    };
    Some(Ok(match text(reply.first()).as_str() {
        "granted" if reply.len() == requests.len() + 1 => {
            Taken::Granted(reply[1..].iter().map(fence).collect::<Option<_>>()?)
        }
        "kind" => {
            let (key, found) = (key()?, kind(&text(reply.get(2))));
            return Some(Err(StoreError::OtherMode { key, found }));
        }
        "exhausted" => {
            let store = format!("'{}'", key()?);
            let why =
                "its fencing tokens have come to their end, 2^53, and would not grow; choose another key";
            return Some(Err(StoreError::Unusable { store, why: why.to_owned() }));
        }
        "vanished" => Taken::Vanished { ticket: text(reply.get(1)) },
        "busy" => {
            let holder = reply.get(2).cloned().map(items).unwrap_or_default();
            let ahead = Some(number(reply.get(3)).max(0) as usize);
            Taken::Busy {
                ttl: Duration::from_millis(number(holder.get(4)).max(0) as u64),
                busy: Box::new(Busy { key: key()?, holder: Some(holding(&holder)), ahead }),
                ticket: text(reply.get(4)),
                newly_queued: number(reply.get(5)) == 1,
                is_claim: number(reply.get(6)) == 1,
            }
        }
        _ => return None,
    }))
}

fn fence(reply: &Value) -> Option<FencingToken> {
    u64::try_from(number(Some(reply))).ok().filter(|fence| *fence > 0).map(FencingToken)
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

/// Whether each of so many locks was held; `None` for a reply that makes no sense.
pub fn released(reply: Value, count: usize) -> Option<Vec<bool>> {
    let released: Vec<bool> = items(reply).iter().map(|one| number(Some(one)) > 0).collect();
    (released.len() == count).then_some(released)
}

/// Those of these locks that a release handed over to the next in line, who has to confirm it.
pub fn handed_over<'a>(reply: &Value, keys: &'a [Key]) -> Vec<&'a Key> {
    let answers = items(reply.clone());
    keys.iter().zip(&answers).filter(|(_, one)| number(Some(one)) == 2).map(|(key, _)| key).collect()
}

/// What was done, and whether the lock was handed over to the next in line; `None` for a reply that makes no sense.
pub fn broken(reply: Value) -> Option<(Broken, bool)> {
    let reply = items(reply);
    let holder = holding(&reply.get(1).cloned().map(items).unwrap_or_default());
    let broken = match text(reply.first()).as_str() {
        "free" => Broken::Free,
        "told" => Broken::Told(holder),
        "other" => Broken::Other(holder),
        "freed" => Broken::Freed(holder),
        _ => return None,
    };
    Some((broken, number(reply.get(2)) == 1))
}

/// What is left of the lease that was asked about, if it is held; `None` for a reply that makes no sense.
pub fn checked(reply: &Value) -> Option<Option<Duration>> {
    match reply {
        Value::Int(millis) => Some(Some(left(*millis).unwrap_or(Duration::MAX))),
        Value::Nil => Some(None),
        _ => None,
    }
}

/// `None` for a reply that makes no sense, which must not be taken for a lock that is free.
pub fn status(key: Key, reply: Value) -> Option<LockStatus> {
    let [held @ (Value::BulkString(_) | Value::SimpleString(_)), Value::Array(holders), Value::Array(queue)] =
        <[Value; 3]>::try_from(items(reply)).ok()?
    else {
        return None;
    };
    let held = text(Some(&held));
    let mut holders: Vec<Holder> = holders.into_iter().map(|holder| holding(&items(holder))).collect();
    holders.sort_by_key(|holder| holder.fence);
    Some(LockStatus {
        key,
        mode: kind(&held),
        holders,
        waiters: queue.iter().map(|member| waiter(&text(Some(member)))).collect(),
    })
}

/// What is left of a lease, from PTTL: `None` when it never expires.
pub fn left(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// See `describe` in `scripts/queue.lua`.
fn holding(description: &[Value]) -> Holder {
    let metadata = text(description.first());
    let positive = |index: usize| {
        Some(number(description.get(index))).filter(|number| *number > 0).map(|number| number as u64)
    };
    Holder {
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
    Waiter { mode: kind, metadata: Metadata::from_untrusted(words.next().unwrap_or_default()) }
}

/// What the scripts call a kind: never an owner token of another library.
pub fn kind_name(kind: Mode) -> String {
    match kind {
        Mode::Shared => "shared:".to_owned(),
        other => other.to_string(),
    }
}

fn kind(name: &str) -> Mode {
    name.trim_end_matches(':').parse().unwrap_or_default()
}
