//! `status.lua`: the holders and waiters of a lock.

use redis::Value;

use super::holder::{holder, mode};
use super::{Script, ScriptCall, script};
use crate::lock::{Holder, Key, LockStatus, Metadata, Waiter};
use crate::store::redis::reply::{items, text};

static SCRIPT: Script = script!("status.lua");

pub fn status(key: &Key) -> ScriptCall<LockStatus> {
    ScriptCall::new(&SCRIPT, [key], None, decode)
}

fn decode(reply: Value, keys: &[Key]) -> Option<LockStatus> {
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

/// The waiter that a member of the queue stands for: see [`super::release::cancel`].
fn waiter(member: &str) -> Waiter {
    let mut words = member.splitn(3, ' ').skip(1);
    let mode = mode(words.next().unwrap_or_default());
    Waiter { mode, metadata: Metadata::from_untrusted(words.next().unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Mode;
    use crate::store::redis::script::tests::{array, bulk, garbage, keys};

    #[test]
    fn a_free_lock_is_told_from_a_reply_without_sense() {
        let status = |reply| decode(reply, &keys(&["X"]));
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
    fn any_reply_and_any_member_is_read() {
        for reply in garbage() {
            decode(reply.clone(), &keys(&["a"]));
            holder(Some(&reply));
        }
        for member in ["", " ", "token", "token shared:", "token permits:0 {", "t permits:99999999999 {}"] {
            waiter(member);
        }
    }
}
