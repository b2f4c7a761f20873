//! The breaking of a lock: by whom and why, and from whom the lock is taken.

use std::fmt;

use super::metadata::clean;
use super::{FencingToken, OwnerToken};

/// The user that broke a lock, and the reason: `anna@web3: stuck since 02:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker(String);

impl Breaker {
    /// The text is made harmless and cut to 200 characters.
    pub fn new(user: &str, host: &str, reason: Option<&str>) -> Breaker {
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        Breaker(clean(&format!(
            "{user}@{host}{}",
            reason.map_or(String::new(), |reason| format!(": {reason}"))
        )))
    }

    /// Reads the mark that a store has of a lock: empty, unless it was broken.
    pub fn from_untrusted(text: &str) -> Option<Breaker> {
        (!text.is_empty()).then(|| Breaker(clean(text)))
    }

    /// As it is stored; [`Breaker::from_untrusted`] reads it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The holders that a lock is taken from.
#[derive(Clone, Debug)]
pub enum BreakScope {
    All,
    Owner(OwnerToken),
    /// The one that was granted this fencing token. It is only told to stop: who was told before, or cannot be, stays.
    Grant(FencingToken),
}

impl BreakScope {
    pub fn of(owner: Option<&OwnerToken>) -> BreakScope {
        owner.map_or(BreakScope::All, |owner| BreakScope::Owner(owner.clone()))
    }

    pub fn owner(&self) -> Option<&OwnerToken> {
        if let BreakScope::Owner(owner) = self { Some(owner) } else { None }
    }

    pub fn grant(&self) -> Option<FencingToken> {
        if let BreakScope::Grant(fence) = self { Some(*fence) } else { None }
    }
}

#[test]
fn a_breaker_is_harmless() {
    let anna = Breaker::new("anna", "web3", Some("stuck\u{1b}[2J"));
    assert_eq!(anna.as_str(), "anna@web3: stuck\u{fffd}[2J");
    for nothing in [None, Some(""), Some(" \t ")] {
        assert_eq!(Breaker::new("anna", "web3", nothing).as_str(), "anna@web3");
    }
    assert_eq!(Breaker::new("anna", "web3", Some(" stuck ")).as_str(), "anna@web3: stuck");
    assert_eq!(Breaker::from_untrusted(""), None);
    assert_eq!(Breaker::from_untrusted("\u{202e}x"), Some(Breaker("\u{fffd}x".to_owned())));
}
