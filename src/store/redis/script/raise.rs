//! `raise.lua`: makes fencing tokens as high as the highest in a quorum.

use redis::Value;

use super::{Script, ScriptCall, script};
use crate::lock::{FencingToken, Key, OwnerToken};
use crate::store::redis::value::number;

static SCRIPT: Script = script!(; "raise.lua");

/// One fencing token for each lock.
pub fn call<'a>(
    keys: impl IntoIterator<Item = &'a Key>,
    token: &OwnerToken,
    fences: &[FencingToken],
) -> ScriptCall {
    fences.iter().fold(ScriptCall::new(&SCRIPT, keys, Some(token)), ScriptCall::arg)
}

/// Whether this token holds all of them, so that they were raised.
pub fn decode(reply: Value) -> bool {
    number(Some(&reply)) == 1
}
