//! `resize.lua`: changes the number of permits of a semaphore.

use std::num::NonZeroU32;

use redis::Value;

use super::call::{Script, ScriptCall, script};
use super::holder::mode;
use crate::lock::{Key, Resized, Result, StoreError};
use crate::store::redis::reply::{items, number, text};

static SCRIPT: Script = script!("resize.lua");

/// Changes the number of permits. The reply says how many there were, and whether the lock was handed over to a waiter.
pub fn resize(key: &Key, permits: NonZeroU32) -> ScriptCall<Result<(Resized, bool)>> {
    ScriptCall::new(&SCRIPT, [key], None, decode).arg(permits)
}

pub fn decode(reply: Value, keys: &[Key]) -> Option<Result<(Resized, bool)>> {
    let reply = items(reply);
    let outcome = match text(reply.first()).as_str() {
        "free" => Resized::NotInUse,
        "resized" => Resized::From(u32::try_from(number(reply.get(1))).ok()?.try_into().ok()?),
        "mode" => {
            let (key, found) = (keys.first()?.clone(), mode(&text(reply.get(1))));
            return Some(Err(StoreError::OtherMode { key, found }));
        }
        _ => return None,
    };
    Some(Ok((outcome, number(reply.get(2)) == 1)))
}

#[test]
fn only_a_semaphore_is_resized() {
    use crate::store::redis::reply::samples::{array, bulk, garbage};
    use crate::store::redis::script::call::tests::keys;
    let resized = |words: &[Value]| decode(array(words.iter().cloned()), &keys(&["a"]));
    let from = |reply| match reply {
        Some(Ok((Resized::From(before), true))) => before.get(),
        _ => 0,
    };
    assert_eq!(from(resized(&[bulk("resized"), Value::Int(3), Value::Int(1)])), 3);
    assert!(matches!(resized(&[bulk("free")]), Some(Ok((Resized::NotInUse, false)))));
    let other = resized(&[bulk("mode"), bulk("shared:")]);
    assert!(matches!(other, Some(Err(StoreError::OtherMode { .. }))));
    assert!(resized(&[bulk("resized"), Value::Int(0)]).is_none());
    for reply in garbage() {
        decode(reply, &keys(&["a"]));
    }
}
