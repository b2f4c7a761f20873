//! What the scripts answer. Each decoder takes the locks that were asked about; its `None` is a reply that makes no
//! sense.

use std::time::Duration;

use redis::Value;

use crate::lock::{
    Broken, Busy, FencingToken, Holder, Key, LockStatus, Metadata, Mode, Renewal, Result, StoreError, Waiter,
};
use crate::store::redis::reply::{items, millis, number, text};

#[derive(Debug)]
pub enum AcquireReply {
    /// One for each lock that was asked for.
    Granted(Vec<FencingToken>),
    Busy(Box<BusyReply>),
    /// The server lost its data; a lease may still be alive.
    DataLost {
        ticket: String,
    },
}

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

pub fn acquire(reply: Value, keys: &[Key]) -> Option<Result<AcquireReply>> {
    let reply = items(reply);
    let key = || {
        let index = usize::try_from(number(reply.get(1))).ok()?.checked_sub(1)?;
        keys.get(index).cloned()
    };
    Some(Ok(match text(reply.first()).as_str() {
        "granted" if reply.len() == keys.len() + 1 => {
            let fence = |fence| positive(Some(fence)).map(FencingToken);
            AcquireReply::Granted(reply[1..].iter().map(fence).collect::<Option<_>>()?)
        }
        "kind" => {
            let (key, found) = (key()?, mode(&text(reply.get(2))));
            return Some(Err(StoreError::OtherMode { key, found }));
        }
        "exhausted" => {
            let store = format!("'{}'", key()?);
            let why =
                "its fencing tokens have come to their end, 2^53, and would not grow; choose another key";
            return Some(Err(StoreError::Unusable { store, why: why.to_owned() }));
        }
        "vanished" => AcquireReply::DataLost { ticket: text(reply.get(1)) },
        "busy" => {
            let ahead = Some(number(reply.get(3)).max(0) as usize);
            let described = reply.get(2).cloned().map(items).unwrap_or_default();
            AcquireReply::Busy(Box::new(BusyReply {
                busy: Busy { key: key()?, holder: Some(holder(reply.get(2))), ahead },
                ticket: text(reply.get(4)),
                ttl: millis(described.get(4)),
                newly_queued: number(reply.get(5)) == 1,
                is_claim: number(reply.get(6)) == 1,
            }))
        }
        _ => return None,
    }))
}

pub fn renew(reply: Value, _: &[Key]) -> Option<Renewal> {
    let reply = items(reply);
    match text(reply.first()).as_str() {
        "extended" => Some(Renewal::Extended),
        "healed" => Some(Renewal::Healed),
        "released" => Some(Renewal::Released),
        "lost" => Some(Renewal::Lost(reply.get(1).map(|description| holder(Some(description))))),
        _ => None,
    }
}

/// What became of one lock that was to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    NotHeld,
    Freed,
    /// The next waiter has it, and has to confirm that.
    HandedOver,
}

pub fn release(reply: Value, keys: &[Key]) -> Option<Vec<Release>> {
    let one = |answer: &Value| match number(Some(answer)) {
        ..=0 => Release::NotHeld,
        2 => Release::HandedOver,
        _ => Release::Freed,
    };
    let all: Vec<Release> = items(reply).iter().map(one).collect();
    (all.len() == keys.len()).then_some(all)
}

pub fn check(reply: Value, _: &[Key]) -> Option<Option<Duration>> {
    match reply {
        Value::Int(millis) => Some(Some(left(millis).unwrap_or(Duration::MAX))),
        Value::Nil => Some(None),
        _ => None,
    }
}

pub fn status(reply: Value, keys: &[Key]) -> Option<LockStatus> {
    let [held @ (Value::BulkString(_) | Value::SimpleString(_)), Value::Array(holders), Value::Array(queue)] =
        <[Value; 3]>::try_from(items(reply)).ok()?
    else {
        return None;
    };
    let mut holders: Vec<Holder> = holders.iter().map(|one| holder(Some(one))).collect();
    holders.sort_by_key(|holder| holder.fence);
    let waiters = queue.iter().map(|member| waiter(&text(Some(member)))).collect();
    Some(LockStatus { key: keys.first()?.clone(), mode: mode(&text(Some(&held))), holders, waiters })
}

pub fn break_lock(reply: Value, _: &[Key]) -> Option<(Broken, bool)> {
    let reply = items(reply);
    let holder = holder(reply.get(1));
    let broken = match text(reply.first()).as_str() {
        "free" => Broken::Free,
        "told" => Broken::Told(holder),
        "other" => Broken::Other(holder),
        "freed" => Broken::Freed(holder),
        _ => return None,
    };
    Some((broken, number(reply.get(2)) == 1))
}

pub fn raise(reply: Value, _: &[Key]) -> Option<bool> {
    Some(number(Some(&reply)) == 1)
}

/// A holder, as `describe` in `lua/queue.lua` returns it.
fn holder(description: Option<&Value>) -> Holder {
    let description = description.cloned().map(items).unwrap_or_default();
    let metadata = text(description.first());
    Holder {
        metadata: (!metadata.is_empty()).then(|| Metadata::from_untrusted(&metadata)),
        fence: positive(description.get(1)).map(FencingToken),
        since: positive(description.get(2)),
        left: left(number(description.get(3))),
        broken: number(description.get(5)) == 1,
    }
}

fn positive(value: Option<&Value>) -> Option<u64> {
    u64::try_from(number(value)).ok().filter(|number| *number > 0)
}

/// What is left of a lease, from PTTL: `None` when it never expires.
fn left(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// The waiter that a member of the queue stands for: see [`super::cancel`].
fn waiter(member: &str) -> Waiter {
    let mut words = member.splitn(3, ' ').skip(1);
    let mode = mode(words.next().unwrap_or_default());
    Waiter { mode, metadata: Metadata::from_untrusted(words.next().unwrap_or_default()) }
}

/// What the scripts call a mode; never an owner token of another library.
pub fn mode_name(mode: Mode) -> String {
    match mode {
        Mode::Shared => "shared:".to_owned(),
        other => other.to_string(),
    }
}

/// The mode with this name; exclusive for any other word.
fn mode(name: &str) -> Mode {
    name.trim_end_matches(':').parse().unwrap_or_default()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    pub fn array(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    /// Replies of a server that is none, or hostile.
    pub fn garbage() -> Vec<Value> {
        let words =
            ["", "granted", "busy", "kind", "vanished", "exhausted", "extended", "lost", "told", "freed"];
        let numbers = [0, 1, -1, i64::MAX, i64::MIN].map(Value::Int);
        let deep = (0..50).fold(Value::Nil, |inner, _| array([inner]));
        let mut replies = vec![Value::Nil, Value::Okay, Value::Boolean(true), Value::Double(f64::NAN), deep];
        replies.extend(numbers.clone());
        for word in words {
            replies.push(bulk(word));
            replies.push(array([bulk(word)]));
            for number in &numbers {
                replies.push(array([bulk(word), number.clone()]));
                replies.push(array(std::iter::once(bulk(word)).chain(vec![number.clone(); 7])));
            }
            replies.push(array([bulk(word), array([bulk("{"), bulk("\u{1b}[2J")]), array([])]));
            replies.push(array([bulk(word), Value::Int(1), array(vec![Value::Int(i64::MAX); 6]), bulk("x")]));
        }
        replies.push(Value::BulkString(vec![0xff; 1000]));
        replies
    }

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| name.parse().unwrap_or_else(|why| panic!("{why}"))).collect()
    }

    fn described(broken: i64) -> Value {
        array([bulk("{}"), bulk("5"), bulk("1"), Value::Int(900), bulk("1000"), Value::Int(broken)])
    }

    #[test]
    fn a_grant_has_a_fencing_token_for_each_lock() {
        let granted = |fences: &[&str]| {
            let reply = array(std::iter::once("granted").chain(fences.iter().copied()).map(bulk));
            match acquire(reply, &keys(&["a", "b"])) {
                Some(Ok(AcquireReply::Granted(fences))) => Some(fences),
                _ => None,
            }
        };
        assert_eq!(granted(&["7", "9"]), Some(vec![FencingToken(7), FencingToken(9)]));
        for wrong in [&["7"][..], &["7", "9", "11"], &["7", "0"], &["7", "-1"], &["7", "x"]] {
            assert_eq!(granted(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_lock_that_is_not_to_be_had_is_named() {
        let [one, two, three] = [1, 2, 3].map(Value::Int);
        let busy = array([bulk("busy"), two, described(0), three, bulk("77"), one, Value::Int(0)]);
        let Some(Ok(AcquireReply::Busy(reply))) = acquire(busy, &keys(&["a", "b"])) else {
            panic!("not busy");
        };
        assert_eq!((reply.busy.key.as_str(), reply.busy.ahead), ("b", Some(3)));
        assert_eq!((reply.ticket.as_str(), reply.ttl), ("77", Duration::from_secs(1)));
        assert!(reply.newly_queued && !reply.is_claim);
    }

    #[test]
    fn only_its_own_words_extend_a_lease() {
        assert!(matches!(renew(array([bulk("extended")]), &[]), Some(Renewal::Extended)));
        assert!(matches!(renew(array([bulk("lost")]), &[]), Some(Renewal::Lost(None))));
        let lost = renew(array([bulk("lost"), described(1)]), &[]);
        assert!(matches!(lost, Some(Renewal::Lost(Some(holder))) if holder.broken));
        assert!(renew(bulk("extended"), &[]).is_none());
    }

    #[test]
    fn each_lock_that_is_released_has_its_own_answer() {
        let reply = array([0, 1, 2].map(Value::Int));
        let all = Some(vec![Release::NotHeld, Release::Freed, Release::HandedOver]);
        assert_eq!(release(reply.clone(), &keys(&["a", "b", "c"])), all);
        assert_eq!(release(reply, &keys(&["a", "b"])), None);
        assert_eq!(release(bulk("1"), &keys(&["a"])), None);
    }

    #[test]
    fn only_a_number_is_a_lease() {
        for (reply, expected) in [
            (Value::Int(5), Some(Some(Duration::from_millis(5)))),
            (Value::Int(-1), Some(Some(Duration::MAX))),
            (Value::Nil, Some(None)),
            (Value::Okay, None),
        ] {
            assert_eq!(check(reply, &[]), expected);
        }
    }

    #[test]
    fn a_free_lock_is_told_from_a_reply_without_sense() {
        let status = |reply| status(reply, &keys(&["X"]));
        let free = status(array([bulk(""), array([]), array([])]));
        assert!(free.is_some_and(|status| status.holders.is_empty() && status.waiters.is_empty()));
        assert!(status(array([bulk(""), array([])])).is_none());
        assert!(status(array([Value::Nil, array([]), array([])])).is_none());
        let queue = array([bulk("token shared: {}"), bulk("x"), Value::Nil]);
        let waiting = status(array([bulk("exclusive"), array([Value::Nil]), queue]));
        assert!(waiting.is_some_and(|status| status.waiters.iter().map(|waiter| waiter.mode).eq([
            Mode::Shared,
            Mode::Exclusive,
            Mode::Exclusive
        ])));
    }

    #[test]
    fn a_broken_lock_names_who_held_it() {
        let broken = break_lock(array([bulk("freed"), described(0), Value::Int(1)]), &[]);
        assert!(matches!(broken, Some((Broken::Freed(holder), true)) if holder.fence.is_some()));
        assert!(matches!(break_lock(array([bulk("free")]), &[]), Some((Broken::Free, false))));
    }

    #[test]
    fn a_holder_that_is_no_redlock_has_only_a_lease() {
        let description = array([bulk(""), bulk(""), bulk(""), Value::Int(-1), bulk("0"), Value::Int(0)]);
        let Holder { metadata, fence, left, broken, .. } = holder(Some(&description));
        assert_eq!((metadata, fence, left, broken), (None, None, None, false));
    }

    #[test]
    fn any_reply_and_any_member_is_read() {
        for reply in garbage() {
            for keys in [keys(&[]), keys(&["a"]), keys(&["a", "b"])] {
                if let Some(Ok(AcquireReply::Granted(fences))) = acquire(reply.clone(), &keys) {
                    // A server may lie, and then it grants as many as were asked for.
                    assert_eq!(fences.len(), keys.len());
                }
                release(reply.clone(), &keys);
                status(reply.clone(), &keys);
            }
            renew(reply.clone(), &[]);
            break_lock(reply.clone(), &[]);
            holder(Some(&reply));
        }
        for member in ["", " ", "token", "token shared:", "token permits:0 {", "t permits:99999999999 {}"] {
            waiter(member);
        }
    }
}
