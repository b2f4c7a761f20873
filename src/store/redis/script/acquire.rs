//! `acquire.lua` and `acquire_one.lua`: acquire locks, all or none, or one of several, or take a place in the queue.

use std::time::Duration;

use redis::Value;

use super::call::{Script, ScriptCall, script};
use super::holder::{holder, mode, mode_name};
use crate::lock::{Busy, FencingToken, Key, Permits, Priority, Request, Result, StoreError};
use crate::store::redis::reply::{items, millis, number, text};

static SCRIPT: Script = script!("acquire.lua", behind "acquire_quick.lua", with "request.lua");
static ONE: Script = script!("acquire_one.lua", with "request.lua");

/// A request takes a place in the queue, or not, when the lock is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    No,
    Yes,
    /// Also when the server lost its data: the lease that was there has ended by now.
    AfterDataLoss,
}

/// The reply of `acquire.lua`.
#[derive(Debug)]
pub enum AcquireReply {
    /// One for each lock that was asked for.
    Granted {
        fences: Vec<FencingToken>,
        /// The permits of each, of a semaphore.
        permits: Vec<Permits>,
    },
    Busy(Box<BusyReply>),
    /// The server lost its data; a lease may still be alive.
    DataLost {
        ticket: String,
    },
}

/// The reply of `acquire_one.lua`.
#[derive(Debug)]
pub enum OneReply {
    /// The lock at this place of the request.
    Granted { place: usize, fence: FencingToken },
    /// Each of them.
    Busy(Vec<BusyReply>),
    /// The server lost the data of the locks at these places; their leases may still be alive.
    DataLost { ticket: String, places: Vec<usize> },
}

/// Why the lock was not granted, and where the waiter stands.
#[derive(Debug)]
pub struct BusyReply {
    pub busy: Busy,
    pub ticket: String,
    /// The TTL of the holder's lease; zero for a holder that is not a redlock.
    pub ttl: Duration,
    /// The place in the queue is a new one.
    pub newly_queued: bool,
    /// The lock was handed over to the holder, who has not confirmed it yet.
    pub is_claim: bool,
}

/// Makes the call for these requests, the first of which has what all have: [`acquire`] or [`acquire_one`].
pub type MakeCall<R> = fn(&Request, &[Request], Queueing, &str) -> ScriptCall<Result<R>>;

/// Requests that differ in nothing but their keys and modes. `ticket` is the place in the queue that the server gave before.
pub fn acquire(
    first: &Request,
    requests: &[Request],
    queueing: Queueing,
    ticket: &str,
) -> ScriptCall<Result<AcquireReply>> {
    call(&SCRIPT, first, requests, queueing, ticket, decode)
}

/// The same for one of them, whichever is free first.
pub fn acquire_one(
    first: &Request,
    requests: &[Request],
    queueing: Queueing,
    ticket: &str,
) -> ScriptCall<Result<OneReply>> {
    call(&ONE, first, requests, queueing, ticket, decode_one)
}

fn call<T>(
    script: &'static Script,
    first: &Request,
    requests: &[Request],
    queueing: Queueing,
    ticket: &str,
    decode: fn(Value, &[Key]) -> Option<T>,
) -> ScriptCall<T> {
    let keys = requests.iter().map(|request| &request.key);
    ScriptCall::new(script, keys, Some(&first.token), decode)
        .arg(first.ttl.as_millis())
        .arg(first.metadata.to_json())
        .arg(match queueing {
            Queueing::No => "once",
            Queueing::Yes => "queue",
            Queueing::AfterDataLoss => "insist",
        })
        .arg(ticket)
        .arg(first.min_hold.as_millis())
        .arg(modes(requests))
        .arg(first.metadata.priority.head_start_micros())
        .arg(Priority::CLOCK_SKEW.as_micros() as u64)
}

/// The mode of all, or that of each.
fn modes(requests: &[Request]) -> String {
    let mut names: Vec<String> = requests.iter().map(|request| mode_name(request.mode)).collect();
    if names.iter().all(|name| *name == names[0]) {
        names.truncate(1);
    }
    names.join(" ")
}

pub fn decode(reply: Value, keys: &[Key]) -> Option<Result<AcquireReply>> {
    let reply = items(reply);
    Some(Ok(match text(reply.first()).as_str() {
        "granted" if reply.len() == keys.len() + 1 => {
            let words: Vec<String> = reply[1..].iter().map(|granted| text(Some(granted))).collect();
            let fences = words.iter().map(|words| fence(words)).collect::<Option<_>>()?;
            let permits =
                words.iter().map(|words| words.split(' ').nth(1)?.parse().ok()).collect::<Option<_>>();
            AcquireReply::Granted { fences, permits: permits.unwrap_or_default() }
        }
        "vanished" => AcquireReply::DataLost { ticket: text(reply.get(1)) },
        "busy" => AcquireReply::Busy(busy(&reply, keys)?.into()),
        other => return refusal(other, &reply, keys).map(Err),
    }))
}

pub fn decode_one(reply: Value, keys: &[Key]) -> Option<Result<OneReply>> {
    let reply = items(reply);
    Some(Ok(match text(reply.first()).as_str() {
        "granted" => {
            let place = place(&reply).filter(|place| *place < keys.len())?;
            OneReply::Granted { place, fence: fence(&text(reply.get(2)))? }
        }
        "vanished" => {
            let place = |number_: &Value| usize::try_from(number(Some(number_))).ok()?.checked_sub(1);
            let places = reply.iter().skip(2).map(place).collect::<Option<_>>()?;
            OneReply::DataLost { ticket: text(reply.get(1)), places }
        }
        "busy" if reply.len() == keys.len() + 1 => {
            let each = reply.into_iter().skip(1).map(|one| busy(&items(one), keys));
            OneReply::Busy(each.collect::<Option<_>>()?)
        }
        other => return refusal(other, &reply, keys).map(Err),
    }))
}

fn fence(words: &str) -> Option<FencingToken> {
    words.split(' ').next()?.parse().ok().filter(|fence| *fence > 0).map(FencingToken)
}

/// The place of the lock that a reply is about.
fn place(reply: &[Value]) -> Option<usize> {
    usize::try_from(number(reply.get(1))).ok()?.checked_sub(1)
}

fn busy(reply: &[Value], keys: &[Key]) -> Option<BusyReply> {
    let ahead = Some(number(reply.get(3)).max(0) as usize);
    let others = number(reply.get(7)).saturating_sub(1).max(0) as usize;
    let described = reply.get(2).cloned().map(items).unwrap_or_default();
    let key = keys.get(place(reply)?)?.clone();
    Some(BusyReply {
        busy: Busy { key, holder: Some(holder(reply.get(2))), others, ahead },
        ticket: text(reply.get(4)),
        ttl: millis(described.get(4)),
        newly_queued: number(reply.get(5)) == 1,
        is_claim: number(reply.get(6)) == 1,
    })
}

/// Why a lock cannot be had by waiting for it.
fn refusal(word: &str, reply: &[Value], keys: &[Key]) -> Option<StoreError> {
    let key = || keys.get(place(reply)?).cloned();
    match word {
        "mode" => Some(StoreError::OtherMode { key: key()?, found: mode(&text(reply.get(2))) }),
        "exhausted" => {
            let store = format!("'{}'", key()?);
            let why = "its fencing tokens have reached 2^53, and cannot grow; choose another key";
            Some(StoreError::Unusable { store, why: why.to_owned() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk, garbage};
    use crate::store::redis::script::call::tests::{described, keys};

    #[test]
    fn a_grant_has_a_fencing_token_for_each_lock() {
        let granted = |fences: &[&str]| {
            let reply = array(std::iter::once("granted").chain(fences.iter().copied()).map(bulk));
            match decode(reply, &keys(&["a", "b"])) {
                Some(Ok(AcquireReply::Granted { fences, permits })) => {
                    Some((fences, permits.iter().map(Permits::to_string).collect::<Vec<_>>()))
                }
                _ => None,
            }
        };
        let fences = vec![FencingToken(7), FencingToken(9)];
        assert_eq!(granted(&["7", "9"]), Some((fences.clone(), Vec::new())));
        assert_eq!(granted(&["7 0", "9 2,3"]), Some((fences, vec!["0".to_owned(), "2,3".to_owned()])));
        for wrong in [&["7"][..], &["7", "9", "11"], &["7", "0"], &["7", "-1"], &["7", "x"]] {
            assert_eq!(granted(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_lock_that_is_not_to_be_had_is_named() {
        let [one, two, three] = [1, 2, 3].map(Value::Int);
        let busy = array([bulk("busy"), two, described(""), three, bulk("77"), one, Value::Int(0)]);
        let Some(Ok(AcquireReply::Busy(reply))) = decode(busy, &keys(&["a", "b"])) else {
            panic!("not busy");
        };
        assert_eq!((reply.busy.key.as_str(), reply.busy.ahead), ("b", Some(3)));
        assert_eq!((reply.ticket.as_str(), reply.ttl), ("77", Duration::from_secs(1)));
        assert!(reply.newly_queued && !reply.is_claim);
    }

    #[test]
    fn one_of_several_is_granted() {
        let one = |reply| decode_one(reply, &keys(&["a", "b"]));
        let granted = |place| one(array([bulk("granted"), Value::Int(place), bulk("7")]));
        let second = OneReply::Granted { place: 1, fence: FencingToken(7) };
        assert!(matches!(granted(2), Some(Ok(reply)) if format!("{reply:?}") == format!("{second:?}")));
        assert!(granted(3).is_none() && granted(0).is_none());
        let busy = |place| {
            array([bulk("busy"), Value::Int(place), described(""), Value::Int(3), bulk("77"), Value::Int(0)])
        };
        let Some(Ok(OneReply::Busy(each))) = one(array([bulk("busy"), busy(1), busy(2)])) else {
            panic!("not busy");
        };
        assert_eq!(each.iter().map(|reply| reply.busy.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(one(array([bulk("busy"), busy(1)])).is_none());
    }

    #[test]
    fn garbage_grants_nothing() {
        for reply in garbage() {
            for keys in [keys(&[]), keys(&["a"]), keys(&["a", "b"])] {
                if let Some(Ok(AcquireReply::Granted { fences, .. })) = decode(reply.clone(), &keys) {
                    // A server may lie, and then it grants as many as were asked for.
                    assert_eq!(fences.len(), keys.len());
                }
            }
        }
    }
}
