//! `status.lua`: the holders and waiters of a lock.

use std::iter::repeat;

use redis::{Pipeline, Value};

use super::call::{Script, ScriptCall, script};
use super::holder::{holder, left, mode, positive};
use crate::lock::{FencingToken, Holder, Key, LockStatus, Metadata, Mode, Waiter};
use crate::store::redis::keys::KeyNames;
use crate::store::redis::reply::{items, text};

static SCRIPT: Script = script!("status.lua");

pub fn status(key: &Key) -> ScriptCall<LockStatus> {
    ScriptCall::new(&SCRIPT, [key], None, decode)
}

pub fn decode(reply: Value, keys: &[Key]) -> Option<LockStatus> {
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

/// Asks for what tells the status of locks that are simply held, without the script: that takes a server 13 us for each, and
/// this 5 us (ten thousand locks, Redis 7.0).
pub fn simple_status(keys: &[Key]) -> Pipeline {
    let mut transaction = redis::pipe();
    for KeyNames { lock, state, lease, queue, .. } in keys.iter().map(KeyNames::of) {
        transaction.cmd("GET").arg(&lock).cmd("PTTL").arg(lock).cmd("GET").arg(lease);
        transaction.cmd("HGET").arg(state).arg("fence").cmd("ZRANGE").arg(queue).arg(0).arg(-1);
    }
    transaction.atomic().clone()
}

/// Reads the reply to [`simple_status`]: the status of each of these locks, `None` for one that is not held, or not exclusively, or
/// that needs a second look for any other reason.
pub fn read_simple_status(reply: &Value, keys: &[Key]) -> Vec<Option<LockStatus>> {
    let replies = if let Value::Array(replies) = reply { &replies[..] } else { &[] };
    let replies = replies.as_chunks().0.iter().map(Some).chain(repeat(None));
    keys.iter().zip(replies).map(|(key, replies)| simply_held(replies?, key)).collect()
}

fn simply_held([lock, pttl, lease, fence, queue]: &[Value; 5], key: &Key) -> Option<LockStatus> {
    let (lock, lease) = (text(Some(lock)), text(Some(lease)));
    let (Value::Int(pttl @ -1..), Value::Array(queue)) = (pttl, queue) else { return None };
    let mut words = lease.splitn(5, ' ').skip(2);
    let (since, owner, metadata) = (words.next()?, words.next()?, words.next()?);
    // With a colon it may be a mark: see `is_mark` in `lua/holders.lua`.
    if lock != owner || lock.contains(':') {
        return None;
    }
    let holder = Holder {
        metadata: Some(Metadata::from_untrusted(metadata)),
        fence: positive(Some(fence)).map(FencingToken),
        since: since.parse().ok(),
        left: left(*pttl),
        ..Holder::default()
    };
    let waiters = queue.iter().map(|member| waiter(&text(Some(member)))).collect();
    Some(LockStatus { key: key.clone(), mode: Mode::Exclusive, holders: vec![holder], waiters })
}

/// The waiter that a member of the queue means: see [`super::release::cancel`].
fn waiter(member: &str) -> Waiter {
    let mut words = member.splitn(3, ' ').skip(1);
    let mode = mode(words.next().unwrap_or_default());
    Waiter { mode, metadata: Metadata::from_untrusted(words.next().unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk, garbage};
    use crate::store::redis::script::call::tests::keys;

    #[test]
    fn a_free_lock_is_told_from_a_reply_without_sense() {
        let status = |reply| decode(reply, &keys(&["X"]));
        let free = status(array([bulk(""), array([]), array([])]));
        assert!(free.is_some_and(|status| status.holders.is_empty() && status.waiters.is_empty()));
        assert!(status(array([])).is_none());
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
    fn any_reply_and_any_member_is_read() {
        for reply in garbage() {
            read_simple_status(&reply, &keys(&["a"]));
            read_simple_status(&array(vec![reply.clone(); 5]), &keys(&["a", "b"]));
            decode(reply.clone(), &keys(&["a"]));
            holder(Some(&reply));
        }
        for member in ["", " ", "token", "token shared:", "token permits:0 {", "t permits:99999999999 {}"] {
            waiter(member);
        }
    }
}
