//! The owner token and the fencing token.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// A store may keep a lock that is broken, released, or held by several with one of these marks in the place of its owner
/// token. No owner token begins with a mark.
const MARKS: [&str; 4] = ["broken:", "released:", "shared:", "permits:"];

/// Proof of ownership: a fresh random UUID for every acquisition.
///
/// Everybody who knows it can release the lock, so it has no `Display` and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// 122 random bits: nobody guesses it, and no two are the same.
    pub fn random() -> Self {
        OwnerToken(Uuid::new_v4().to_string())
    }

    /// The secret itself, for the store and for those who asked for it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken(…)")
    }
}

impl FromStr for OwnerToken {
    type Err = String;

    /// Any printable text without a mark: a lock that another library took is released with that library's token.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_mark = MARKS.iter().any(|mark| text.starts_with(mark));
        if is_mark || text.is_empty() || text.len() > 512 || text.chars().any(char::is_control) {
            return Err("an owner token is what `redlock acquire` printed".to_owned());
        }
        Ok(OwnerToken(text.to_owned()))
    }
}

/// A number that grows with every grant of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The least fencing token that a grant may get now, by the wall clock of this host in microseconds: the tokens go on
    /// growing when the store lost its data. A store with a clock of its own, for all hosts, uses that one.
    pub fn floor() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        FencingToken(since_epoch.as_micros() as u64)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
