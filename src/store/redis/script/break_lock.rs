//! `break.lua`: takes a lock away from its holders.

use redis::Value;

use super::holder::holder;
use super::{Script, ScriptCall, script};
use crate::lock::{Broken, Key, OwnerToken};
use crate::store::redis::value::{items, number, text};

static SCRIPT: Script = script!(; "break.lua");

/// With a token, only from the holder that has it.
pub fn call(key: &Key, token: Option<&OwnerToken>) -> ScriptCall {
    ScriptCall::new(&SCRIPT, [key], token)
}

/// What was done, and whether the lock was handed over to the next waiter; `None` for a reply that makes no sense.
pub fn decode(reply: Value) -> Option<(Broken, bool)> {
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

#[test]
fn a_reply_says_who_held_it() {
    use super::tests::{array, bulk, decoded};
    let held = array([bulk("{}"), bulk("5"), bulk("1"), Value::Int(9), bulk("10"), Value::Int(0)]);
    let broken = decode(array([bulk("freed"), held, Value::Int(1)]));
    assert!(matches!(broken, Some((Broken::Freed(holder), true)) if holder.fence.is_some()));
    assert!(matches!(decode(array([bulk("free")])), Some((Broken::Free, false))));
    decoded(decode);
}
