//! Holders, waiters and modes as the scripts write them.

use std::time::Duration;

use redis::Value;

use crate::lock::{FencingToken, Holder, Metadata, Mode, Request, Waiter};
use crate::store::redis::value::{items, number, text};

/// A holder, as `describe` in `lua/queue.lua` returns it.
pub fn holder(description: Option<&Value>) -> Holder {
    let description = description.cloned().map(items).unwrap_or_default();
    let metadata = text(description.first());
    let positive = |index: usize| {
        Some(number(description.get(index))).filter(|number| *number > 0).map(|number| number as u64)
    };
    Holder {
        metadata: (!metadata.is_empty()).then(|| Metadata::from_untrusted(&metadata)),
        fence: positive(1).map(FencingToken),
        since: positive(2),
        left: left(number(description.get(3))),
        broken: number(description.get(5)) == 1,
    }
}

/// What is left of a lease, from PTTL: `None` when it never expires.
pub fn left(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// The member of the queue that stands for a request: the owner token, the mode and the metadata, with spaces between.
pub fn queue_member(request: &Request) -> String {
    format!("{} {} {}", request.token.expose(), mode_name(request.mode), request.metadata.to_json())
}

/// The waiter that a member of the queue stands for.
pub fn waiter(member: &str) -> Waiter {
    let mut words = member.splitn(3, ' ').skip(1);
    let mode = mode(words.next().unwrap_or_default());
    Waiter { mode, metadata: Metadata::from_untrusted(words.next().unwrap_or_default()) }
}

/// What the scripts call a mode; never an owner token of another library.
pub fn mode_name(mode: Mode) -> String {
    match mode {
        Mode::Shared => "shared:".to_owned(),
        other => other.to_string(),
    }
}

/// The mode with this name; exclusive for any other word.
pub fn mode(name: &str) -> Mode {
    name.trim_end_matches(':').parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script::tests::{array, bulk, garbage};

    #[test]
    fn a_holder_that_is_no_redlock_has_only_a_lease() {
        let description = array([bulk(""), bulk(""), bulk(""), Value::Int(-1), bulk("0"), Value::Int(0)]);
        let foreign = holder(Some(&description));
        assert_eq!(
            (foreign.metadata, foreign.fence, foreign.left, foreign.broken),
            (None, None, None, false)
        );
    }

    #[test]
    fn any_description_and_any_member_is_read() {
        for reply in garbage() {
            holder(Some(&reply));
        }
        for member in ["", " ", "token", "token shared:", "token permits:0 {", "t permits:99999999999 {}"] {
            waiter(member);
        }
        assert_eq!(waiter("t shared: {}").mode, Mode::Shared);
    }
}
