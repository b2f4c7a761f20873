//! `break.lua`: takes a lock away from its holder.

use redis::Value;

use super::call::{Script, ScriptCall, script};
use super::holder::holder;
use crate::lock::{BreakScope, Breaker, Broken, Key};
use crate::store::redis::reply::{items, number, text};

static SCRIPT: Script = script!("break.lua");

/// Takes the lock away from these holders. The reply says what was done, and whether the
/// lock was handed over to the next waiter.
pub fn break_lock(key: &Key, scope: &BreakScope, by: &Breaker) -> ScriptCall<(Broken, bool)> {
    let fence = scope.grant().map_or(String::new(), |fence| fence.to_string());
    // Sent again, it is recognised by the number: breaking a lock twice frees it.
    ScriptCall::new(&SCRIPT, [key], scope.owner(), decode).arg(by.as_str()).arg(fastrand::u64(..)).arg(fence)
}

pub fn decode(reply: Value, _: &[Key]) -> Option<(Broken, bool)> {
    let reply = items(reply);
    let holder = holder(reply.get(1));
    let broken = match text(reply.first()).as_str() {
        "free" => Broken::Free,
        "told" => Broken::Told(holder),
        "other" => Broken::Other(holder),
        "freed" => Broken::Freed(holder),
        _ => return None,
    };
    Some((broken, number(reply.get(2)) == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk, garbage};
    use crate::store::redis::script::call::tests::described;

    #[test]
    fn a_broken_lock_names_who_held_it() {
        let broken = decode(array([bulk("freed"), described(""), Value::Int(1)]), &[]);
        assert!(matches!(broken, Some((Broken::Freed(holder), true)) if holder.fence.is_some()));
        assert!(matches!(decode(array([bulk("free")]), &[]), Some((Broken::Free, false))));
        for reply in garbage() {
            decode(reply, &[]);
        }
    }
}
