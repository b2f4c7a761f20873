//! `probe.lua`, and what precedes it: a waiter that was handed a lock confirms that.

use std::time::Duration;

use redis::Value;

use super::{Script, ScriptCall, script};
use crate::lock::{Key, Timeout};
use crate::store::redis::executor::Executor;
use crate::store::redis::keys::KeyNames;

static PROBE: Script = script!(; "probe.lua");

/// A live waiter confirms sooner than this; a little more than `DOUBT` in `lua/keys.lua`.
const CONFIRMATION: Duration = Duration::from_millis(320);

/// Waits until the waiter that was handed the lock confirms it, and asks all waiters to show themselves if it does not.
///
/// A waiter whose machine vanished looks alive to the server, and those behind it are idle: only the process that
/// released the lock is sure to be alive. What goes wrong here is made up for when the next waiter asks.
pub fn confirm(on: &mut dyn Executor, key: &Key, timeout: &Timeout) {
    let until = timeout.until.min(Timeout::of(CONFIRMATION * 3).until);
    let timeout = Timeout { until, ..*timeout };
    let mut claimed = redis::cmd("BLPOP");
    claimed.arg(KeyNames::of(key).claimed).arg(CONFIRMATION.as_secs_f64());
    if matches!(on.follow_up(&claimed, &timeout), Ok(Value::Nil)) {
        let _ = on.follow_up(&ScriptCall::new(&PROBE, [key], None).in_full(), &timeout);
    }
}
