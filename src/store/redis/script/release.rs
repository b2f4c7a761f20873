//! `release.lua`: releases locks, leaves their queues, and hands them over.

use redis::Value;

use super::holder::queue_member;
use super::{Script, ScriptCall, script};
use crate::lock::{Key, OwnerToken, Request};
use crate::store::redis::value::{items, number};

static SCRIPT: Script = script!("release_unqueued.lua"; "release.lua");

/// Computes the hash, while there is time.
pub fn prepare() {
    SCRIPT.prepare();
}

/// Releases what this token holds. A quorum adds a hint for those who wait.
pub fn call<'a>(keys: impl IntoIterator<Item = &'a Key>, token: &OwnerToken) -> ScriptCall {
    ScriptCall::new(&SCRIPT, keys, Some(token)).arg("")
}

/// Leaves the queue, and releases what these requests acquired, without their min-hold.
pub fn cancel_call(first: &Request, keys: &[Key]) -> ScriptCall {
    ScriptCall::new(&SCRIPT, keys, Some(&first.token)).arg(queue_member(first))
}

/// Whether each of `count` locks was held; `None` for a reply that makes no sense.
pub fn decode(reply: Value, count: usize) -> Option<Vec<bool>> {
    let released: Vec<bool> = items(reply).iter().map(|one| number(Some(one)) > 0).collect();
    (released.len() == count).then_some(released)
}

/// Those of these locks that were handed over to the next waiter, who has to confirm it.
pub fn handed_over<'a>(reply: &Value, keys: &'a [Key]) -> Vec<&'a Key> {
    let answers = items(reply.clone());
    keys.iter().zip(&answers).filter(|(_, one)| number(Some(one)) == 2).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script::tests::{array, bulk, decoded};

    #[test]
    fn each_lock_has_its_own_answer() {
        let reply = array([Value::Int(0), Value::Int(1), Value::Int(2)]);
        let keys = ["a", "b", "c"].map(|key| key.parse().unwrap_or_else(|why| panic!("{why}")));
        assert_eq!(handed_over(&reply, &keys), [&keys[2]]);
        assert_eq!(decode(reply.clone(), 3), Some(vec![false, true, true]));
        assert_eq!(decode(reply, 2), None);
        assert_eq!(decode(bulk("1"), 1), None);
        decoded(|reply| Some(handed_over(&reply, &keys).len()));
    }
}
