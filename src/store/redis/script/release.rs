//! `release.lua`: releases locks, leaves their queues, and hands them over.

use redis::Value;

use super::call::{Script, ScriptCall, script};
use super::holder::mode_name;
use crate::lock::{Key, OwnerToken, ReleaseOutcome, Request};
use crate::store::redis::reply::{items, number};

static SCRIPT: Script = script!("release.lua", behind "release_quick.lua");

/// The outcome for one lock that was to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    NotHeld,
    Freed,
    /// The next waiter has it, and has to confirm that.
    HandedOver,
    /// It was gone, and this token was the last that held it.
    Vacant,
}

impl From<ReleaseReply> for ReleaseOutcome {
    fn from(release: ReleaseReply) -> ReleaseOutcome {
        match release {
            ReleaseReply::NotHeld => ReleaseOutcome::NotHeld,
            ReleaseReply::Freed | ReleaseReply::HandedOver => ReleaseOutcome::Released,
            ReleaseReply::Vacant => ReleaseOutcome::Vacant,
        }
    }
}

pub type ReleaseCall = ScriptCall<Vec<ReleaseReply>>;

/// Releases what this token holds. A quorum adds a hint for those who wait.
pub fn release(keys: &[Key], token: &OwnerToken) -> ReleaseCall {
    ScriptCall::new(&SCRIPT, keys, Some(token), decode).arg("")
}

/// Leaves the queue, and releases what these requests acquired, without their min-hold. The member of the queue
/// for a request is the owner token, the mode and the metadata, with spaces between.
pub fn cancel(first: &Request, requests: &[Request]) -> ReleaseCall {
    let Request { token, mode, metadata, .. } = first;
    let member = format!("{} {} {}", token.expose(), mode_name(*mode), metadata.to_json());
    let keys = requests.iter().map(|request| &request.key);
    ScriptCall::new(&SCRIPT, keys, Some(token), decode).arg(member)
}

pub fn decode(reply: Value, keys: &[Key]) -> Option<Vec<ReleaseReply>> {
    let one = |answer: &Value| match number(Some(answer)) {
        ..=0 => ReleaseReply::NotHeld,
        2 => ReleaseReply::HandedOver,
        3 => ReleaseReply::Vacant,
        _ => ReleaseReply::Freed,
    };
    let all: Vec<ReleaseReply> = items(reply).iter().map(one).collect();
    (all.len() == keys.len()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk, garbage};
    use crate::store::redis::script::call::tests::keys;

    #[test]
    fn each_lock_that_is_released_has_its_own_answer() {
        let reply = array([0, 1, 2, 3].map(Value::Int));
        let all = Some(vec![
            ReleaseReply::NotHeld,
            ReleaseReply::Freed,
            ReleaseReply::HandedOver,
            ReleaseReply::Vacant,
        ]);
        assert_eq!(decode(reply.clone(), &keys(&["a", "b", "c", "d"])), all);
        assert_eq!(decode(reply, &keys(&["a", "b"])), None);
        assert_eq!(decode(bulk("1"), &keys(&["a"])), None);
        for reply in garbage() {
            decode(reply, &keys(&["a"]));
        }
    }
}
