//! `handover.lua`, and what goes before it: whether the waiter that was handed a lock is there.

use std::time::Duration;

use redis::Value;

use super::call::{Script, ScriptCall, script};
use crate::lock::{Key, Timeout};
use crate::store::redis::keys::KeyNames;
use crate::store::redis::routing::Routing;

static PROBE: Script = script!("handover.lua");

/// A live waiter confirms sooner than this; a little more than `DOUBT` in `lua/keys.lua`.
const CONFIRMATION: Duration = Duration::from_millis(320);

/// Waits until the waiter that was handed the lock confirms it, and asks all waiters to show themselves if it does not.
///
/// A waiter whose machine vanished looks alive to the server, and those behind it are idle: only the process that
/// released the lock is sure to be alive. The next waiter that asks makes up for a failure here.
pub fn confirm_handover(on: &mut impl Routing, key: &Key, timeout: &Timeout) {
    let timeout = timeout.at_most(CONFIRMATION * 3);
    let mut claimed = redis::cmd("BLPOP");
    claimed.arg(KeyNames::of(key).claimed).arg(CONFIRMATION.as_secs_f64());
    if matches!(on.follow_up(&claimed, &timeout), Ok(Value::Nil)) {
        let probe = ScriptCall::new(&PROBE, [key], None, |_, _| Some(()));
        let _ = on.follow_up(&probe.in_full(on.index()), &timeout);
    }
}
