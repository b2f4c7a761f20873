//! `status.lua`: the holders of a lock and its waiters.

use redis::Value;

use super::holder::{holder, mode, waiter};
use super::{Script, ScriptCall, script};
use crate::lock::{Holder, Key, LockStatus};
use crate::store::redis::value::{items, text};

static SCRIPT: Script = script!(; "status.lua");

pub fn call(key: &Key) -> ScriptCall {
    ScriptCall::new(&SCRIPT, [key], None)
}

/// `None` for a reply that makes no sense: it does not say that a lock is free.
pub fn decode(reply: Value, key: Key) -> Option<LockStatus> {
    let [held @ (Value::BulkString(_) | Value::SimpleString(_)), Value::Array(holders), Value::Array(queue)] =
        <[Value; 3]>::try_from(items(reply)).ok()?
    else {
        return None;
    };
    let mut holders: Vec<Holder> = holders.iter().map(|one| holder(Some(one))).collect();
    holders.sort_by_key(|holder| holder.fence);
    let waiters = queue.iter().map(|member| waiter(&text(Some(member)))).collect();
    Some(LockStatus { key, mode: mode(&text(Some(&held))), holders, waiters })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Mode;
    use crate::store::redis::script::tests::{array, bulk, decoded};

    #[test]
    fn a_free_lock_is_told_from_a_reply_without_sense() {
        let key = || "X".parse().unwrap_or_else(|why| panic!("{why}"));
        let free = decode(array([bulk(""), array([]), array([])]), key());
        assert!(free.is_some_and(|status| status.holders.is_empty() && status.waiters.is_empty()));
        assert!(decode(array([bulk(""), array([])]), key()).is_none());
        assert!(decode(array([Value::Nil, array([]), array([])]), key()).is_none());
        let queue = array([bulk("token shared: {}"), bulk("x"), Value::Nil]);
        let waiting = decode(array([bulk("exclusive"), array([Value::Nil]), queue]), key());
        assert!(
            waiting.is_some_and(|status| status.waiters.len() == 3 && status.waiters[0].mode == Mode::Shared)
        );
        decoded(|reply| decode(reply, key()));
    }
}
