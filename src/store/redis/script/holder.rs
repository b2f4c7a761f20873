//! The descriptions of holders and the names of modes that several scripts share.

use std::time::Duration;

use redis::Value;

use crate::lock::{Breaker, FencingToken, Holder, Metadata, Mode, Permits};
use crate::store::redis::reply::{items, number, text};

/// A holder, as `describe` in `lua/holders.lua` returns it.
pub fn holder(description: Option<&Value>) -> Holder {
    let description = description.cloned().map(items).unwrap_or_default();
    let metadata = text(description.first());
    let permits: Permits = text(description.get(7)).parse().unwrap_or_default();
    let read = || Metadata { permits, ..Metadata::from_untrusted(&metadata) };
    Holder {
        metadata: (!metadata.is_empty()).then(read),
        fence: positive(description.get(1)).map(FencingToken),
        since: positive(description.get(2)),
        left: left(number(description.get(3))),
        hides_left: false,
        is_kept: number(description.get(6)) == 1,
        broken: Breaker::from_untrusted(&text(description.get(5))),
    }
}

pub fn positive(value: Option<&Value>) -> Option<u64> {
    u64::try_from(number(value)).ok().filter(|number| *number > 0)
}

/// The time left of a lease, from PTTL: `None` when it never expires.
pub fn left(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// The name of a mode in the scripts; never an owner token of another library.
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
    use crate::store::redis::reply::samples::{array, bulk};

    #[test]
    fn a_holder_that_is_not_a_redlock_has_only_a_lease() {
        let description = array([bulk(""), bulk(""), bulk(""), Value::Int(-1), bulk("0"), bulk("")]);
        let Holder { metadata, fence, left, broken, .. } = holder(Some(&description));
        assert_eq!((metadata, fence, left, broken), (None, None, None, None));
    }
}
