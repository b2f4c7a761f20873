//! `check.lua`: what is left of the lease of an owner token.

use std::time::Duration;

use redis::Value;

use super::holder::left;
use super::{Script, ScriptCall, script};
use crate::lock::{Key, OwnerToken};

static SCRIPT: Script = script!("check.lua");

/// What is left of the lease, if the token holds it: `Duration::MAX` when it never expires.
pub fn check(key: &Key, token: &OwnerToken) -> ScriptCall<Option<Duration>> {
    ScriptCall::new(&SCRIPT, [key], Some(token), decode)
}

pub fn decode(reply: Value, _: &[Key]) -> Option<Option<Duration>> {
    match reply {
        Value::Int(millis) => Some(Some(left(millis).unwrap_or(Duration::MAX))),
        Value::Nil => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_is_a_lease() {
        for (reply, expected) in [
            (Value::Int(5), Some(Some(Duration::from_millis(5)))),
            (Value::Int(-1), Some(Some(Duration::MAX))),
            (Value::Nil, Some(None)),
            (Value::Okay, None),
        ] {
            assert_eq!(decode(reply, &[]), expected);
        }
    }
}
