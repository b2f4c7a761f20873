//! `renew.lua`: extends a lease, or acquires the lock again when nobody else was granted it since.

use redis::Value;

use super::call::{Script, ScriptCall, script};
use super::holder::{holder, mode_name};
use crate::lock::{FencingToken, Key, Renewal, Request};
use crate::store::redis::reply::{items, text};

static SCRIPT: Script = script!("renew.lua");

/// Extends a lease. Without the `fence` of the grant, a lock that is gone is not acquired again.
pub fn renew(request: &Request, fence: Option<FencingToken>) -> ScriptCall<Renewal> {
    ScriptCall::new(&SCRIPT, [&request.key], Some(&request.token), decode)
        .arg(request.ttl.as_millis())
        .arg(request.metadata.to_json())
        .arg(fence.map(|fence| fence.to_string()).unwrap_or_default())
        .arg(mode_name(request.mode))
}

pub fn decode(reply: Value, _: &[Key]) -> Option<Renewal> {
    let reply = items(reply);
    match text(reply.first()).as_str() {
        "extended" => Some(Renewal::Extended),
        "healed" => Some(Renewal::Healed),
        "released" => Some(Renewal::Released),
        "lost" => Some(Renewal::Lost(reply.get(1).map(|description| Box::new(holder(Some(description)))))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk, garbage};
    use crate::store::redis::script::call::tests::described;

    #[test]
    fn only_its_own_words_extend_a_lease() {
        assert!(matches!(decode(array([bulk("extended")]), &[]), Some(Renewal::Extended)));
        assert!(matches!(decode(array([bulk("lost")]), &[]), Some(Renewal::Lost(None))));
        let lost = decode(array([bulk("lost"), described("anna@web3")]), &[]);
        assert!(matches!(lost, Some(Renewal::Lost(Some(holder))) if holder.broken.is_some()));
        assert!(decode(bulk("extended"), &[]).is_none());
        for reply in garbage() {
            decode(reply, &[]);
        }
    }
}
