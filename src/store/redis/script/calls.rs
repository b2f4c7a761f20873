//! What each operation calls its script with.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Value;

use super::reply::{self, AcquireReply, Release, mode_name};
use super::{Script, ScriptCall};
use crate::lock::{Broken, FencingToken, Key, LockStatus, OwnerToken, Renewal, Request, Result, Timeout};
use crate::store::redis::keys::KeyNames;
use crate::store::redis::topology::Topology;

/// A script from the files that it consists of, behind the one that all have: one that does without the shared
/// functions, if there is one, and one that needs them.
macro_rules! script {
    ($file:literal $(, behind $fast:literal)?) => {{
        const TEXT: &str = concat!(
            include_str!("lua/keys.lua"),
            $(include_str!(concat!("lua/", $fast)),)?
            include_str!("lua/queue.lua"),
            include_str!(concat!("lua/", $file)),
        );
        Script { text: TEXT, source: LazyLock::new(|| redis::Script::new(TEXT)) }
    }};
}

static ACQUIRE: Script = script!("acquire.lua", behind "acquire_free.lua");
static RELEASE: Script = script!("release.lua", behind "release_unqueued.lua");
static RENEW: Script = script!("renew.lua");
static CHECK: Script = script!("check.lua");
static STATUS: Script = script!("status.lua");
static BREAK: Script = script!("break.lua");
static RAISE: Script = script!("raise.lua");
static PROBE: Script = script!("probe.lua");

/// Whether a request takes a place in the queue when the lock is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    No,
    Yes,
    /// Also when the server lost its data: the lease that was there has ended by now.
    AfterDataLoss,
}

/// Requests that differ in nothing but their keys. `ticket` is the place in the queue that the server gave before.
pub fn acquire(
    first: &Request,
    requests: &[Request],
    queueing: Queueing,
    ticket: &str,
) -> ScriptCall<Result<AcquireReply>> {
    let keys = requests.iter().map(|request| &request.key);
    ScriptCall::new(&ACQUIRE, keys, Some(&first.token), reply::acquire)
        .arg(first.ttl.as_millis())
        .arg(first.metadata.to_json())
        .arg(match queueing {
            Queueing::No => "once",
            Queueing::Yes => "queue",
            Queueing::AfterDataLoss => "insist",
        })
        .arg(ticket)
        .arg(first.min_hold.as_millis())
        .arg(mode_name(first.mode))
}

/// Extends a lease. Without the `fence` of the grant, a lock that is gone is not acquired again.
pub fn renew(request: &Request, fence: Option<FencingToken>) -> ScriptCall<Renewal> {
    ScriptCall::new(&RENEW, [&request.key], Some(&request.token), reply::renew)
        .arg(request.ttl.as_millis())
        .arg(request.metadata.to_json())
        .arg(fence.map(|fence| fence.to_string()).unwrap_or_default())
        .arg(mode_name(request.mode))
}

/// Releases what this token holds. A quorum adds a hint for those who wait.
pub fn release(keys: &[Key], token: &OwnerToken) -> ScriptCall<Vec<Release>> {
    ScriptCall::new(&RELEASE, keys, Some(token), reply::release).arg("")
}

/// Leaves the queue, and releases what these requests acquired, without their min-hold. The member of the queue that
/// stands for a request is the owner token, the mode and the metadata, with spaces between.
pub fn cancel(first: &Request, requests: &[Request]) -> ScriptCall<Vec<Release>> {
    let Request { token, mode, metadata, .. } = first;
    let member = format!("{} {} {}", token.expose(), mode_name(*mode), metadata.to_json());
    let keys = requests.iter().map(|request| &request.key);
    ScriptCall::new(&RELEASE, keys, Some(token), reply::release).arg(member)
}

/// Computes the hash of the release script, while there is time.
pub fn prepare_release() {
    LazyLock::force(&RELEASE.source);
}

/// What is left of the lease, if the token holds it: `Duration::MAX` when it never expires.
pub fn check(key: &Key, token: &OwnerToken) -> ScriptCall<Option<Duration>> {
    ScriptCall::new(&CHECK, [key], Some(token), reply::check)
}

pub fn status(key: &Key) -> ScriptCall<LockStatus> {
    ScriptCall::new(&STATUS, [key], None, reply::status)
}

/// Takes the lock away, with a token only from the holder that has it. The reply says what was done, and whether the
/// lock was handed over to the next waiter.
pub fn break_lock(key: &Key, token: Option<&OwnerToken>) -> ScriptCall<(Broken, bool)> {
    ScriptCall::new(&BREAK, [key], token, reply::break_lock)
}

/// Makes the fencing tokens of locks as high as these. Whether the owner token holds all of them, so that it was done.
pub fn raise(first: &Request, requests: &[Request], fences: &[FencingToken]) -> ScriptCall<bool> {
    let keys = requests.iter().map(|request| &request.key);
    fences.iter().fold(ScriptCall::new(&RAISE, keys, Some(&first.token), reply::raise), ScriptCall::arg)
}

/// A live waiter confirms sooner than this; a little more than `DOUBT` in `lua/keys.lua`.
const CONFIRMATION: Duration = Duration::from_millis(320);

/// Waits until the waiter that was handed the lock confirms it, and asks all waiters to show themselves if it does not.
///
/// A waiter whose machine vanished looks alive to the server, and those behind it are idle: only the process that
/// released the lock is sure to be alive. What goes wrong here is made up for when the next waiter asks.
pub fn confirm_handover(on: &mut Topology, key: &Key, timeout: &Timeout) {
    let timeout = timeout.at_most(CONFIRMATION * 3);
    let mut claimed = redis::cmd("BLPOP");
    claimed.arg(KeyNames::of(key).claimed).arg(CONFIRMATION.as_secs_f64());
    if matches!(on.follow_up(&claimed, &timeout), Ok(Value::Nil)) {
        let probe = ScriptCall::new(&PROBE, [key], None, |_, _| Some(()));
        let _ = on.follow_up(&probe.in_full(), &timeout);
    }
}
