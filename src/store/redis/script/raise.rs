//! `raise.lua`: raises the fencing tokens of locks to those of a quorum's majority.

use super::call::{Script, ScriptCall, script};
use crate::lock::{FencingToken, Request};
use crate::store::redis::reply::number;

static SCRIPT: Script = script!("raise.lua");

/// Makes the fencing tokens of locks as high as these. True if the owner token holds all of them, so that it was done.
pub fn raise(first: &Request, requests: &[Request], fences: &[FencingToken]) -> ScriptCall<bool> {
    let keys = requests.iter().map(|request| &request.key);
    let call = ScriptCall::new(&SCRIPT, keys, Some(&first.token), |reply, _| Some(number(Some(&reply)) == 1));
    fences.iter().fold(call, ScriptCall::arg)
}
