//! `renew.lua`: extends a lease, and acquires a lock again that was lost with the data.

use redis::Value;

use super::holder::{holder, mode_name};
use super::{Script, ScriptCall, script};
use crate::lock::{FencingToken, Renewal, Request};
use crate::store::redis::value::{items, text};

static SCRIPT: Script = script!(; "renew.lua");

/// Without the `fence` of the grant, a lock that is gone is not acquired again.
pub fn call(request: &Request, fence: Option<FencingToken>) -> ScriptCall {
    ScriptCall::new(&SCRIPT, [&request.key], Some(&request.token))
        .arg(request.ttl.as_millis())
        .arg(request.metadata.to_json())
        .arg(fence.map(|fence| fence.to_string()).unwrap_or_default())
        .arg(mode_name(request.mode))
}

/// `None` for a reply that makes no sense.
pub fn decode(reply: Value) -> Option<Renewal> {
    let reply = items(reply);
    match text(reply.first()).as_str() {
        "extended" => Some(Renewal::Extended),
        "healed" => Some(Renewal::Healed),
        "released" => Some(Renewal::Released),
        "lost" => Some(Renewal::Lost(reply.get(1).map(|description| holder(Some(description))))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script::tests::{array, bulk, decoded};

    #[test]
    fn only_its_own_words_extend_a_lease() {
        assert!(matches!(decode(array([bulk("extended")])), Some(Renewal::Extended)));
        assert!(matches!(decode(array([bulk("lost")])), Some(Renewal::Lost(None))));
        let broken = array([bulk("{}"), bulk("5"), bulk("1"), Value::Int(9), bulk("10"), Value::Int(1)]);
        let lost = decode(array([bulk("lost"), broken]));
        assert!(matches!(lost, Some(Renewal::Lost(Some(holder))) if holder.broken));
        assert!(decode(bulk("extended")).is_none());
        decoded(decode);
    }
}
