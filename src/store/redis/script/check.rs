//! `check.lua`: what is left of a lease.

use std::time::Duration;

use redis::Value;

use super::holder::left;
use super::{Script, ScriptCall, script};
use crate::lock::{Key, OwnerToken};

static SCRIPT: Script = script!(; "check.lua");

pub fn call(key: &Key, token: &OwnerToken) -> ScriptCall {
    ScriptCall::new(&SCRIPT, [key], Some(token))
}

/// What is left of the lease, if the token holds it: `Duration::MAX` when it never expires. `None` for a reply that
/// makes no sense.
pub fn decode(reply: Value) -> Option<Option<Duration>> {
    match reply {
        Value::Int(millis) => Some(Some(left(millis).unwrap_or(Duration::MAX))),
        Value::Nil => Some(None),
        _ => None,
    }
}

#[test]
fn only_a_number_is_a_lease() {
    assert_eq!(decode(Value::Int(5)), Some(Some(Duration::from_millis(5))));
    assert_eq!(decode(Value::Int(-1)), Some(Some(Duration::MAX)));
    assert_eq!(decode(Value::Nil), Some(None));
    assert_eq!(decode(Value::Okay), None);
}
