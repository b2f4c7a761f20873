//! A lock in Memcached: the name and the value of an item.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::{Uuid, uuid};

use crate::lock::{Breaker, FencingToken, Holder, Key, Metadata, OwnerToken, Request, unix_millis};

/// A lock that is held, or kept by its min-hold.
#[derive(Clone, Serialize, Deserialize)]
pub struct Item {
    /// A hash of the owner token: who reads the item cannot release the lock.
    owner: String,
    pub fence: u64,
    /// In milliseconds since the Unix epoch.
    since: u64,
    min_hold_ms: u64,
    /// It was released before the end of its min-hold.
    pub is_kept: bool,
    /// The one who broke it; empty if nobody did.
    broken: String,
    metadata: String,
}

/// Drawn by lot.
const OWNERS: Uuid = uuid!("5c0f1f0e-6a3d-4d0b-9a0b-8f6e2a3d71c4");
const KEYS: Uuid = uuid!("b8c1a5d2-41ce-4f57-8a0d-2f7f60a9d1e3");
/// Memcached takes 30 days and more for a date.
pub const LONGEST_TTL: Duration = Duration::from_secs(29 * 24 * 60 * 60);
/// The longest name of an item.
const LONGEST: usize = 250;

/// The name of the item for a key. A name has 250 bytes at most, none of them a space or a control character: other keys are
/// hashed.
pub fn name(key: &Key) -> String {
    let name = format!("redlock:{key}");
    match name.len() <= LONGEST && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => name,
        false => format!("redlock-hash:{}", Uuid::new_v5(&KEYS, key.as_str().as_bytes())),
    }
}

fn hash(token: &OwnerToken) -> String {
    Uuid::new_v5(&OWNERS, token.expose().as_bytes()).to_string()
}

/// Memcached counts in seconds that begin at any time, so an item ends up to a second early. A busy machine may keep its clock
/// from the next second for a while, which ends an item as much earlier.
const ADDED: u64 = 2;

/// For how many seconds Memcached is asked to keep an item.
pub fn seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000) as u64 + ADDED
}

impl Item {
    pub fn of(request: &Request, fence: FencingToken) -> Item {
        Item {
            owner: hash(&request.token),
            fence: fence.0,
            since: unix_millis(),
            min_hold_ms: request.min_hold.as_millis() as u64,
            is_kept: false,
            broken: String::new(),
            metadata: request.metadata.to_json(),
        }
    }

    /// `None` for what another program stored.
    pub fn parse(value: &[u8]) -> Option<Item> {
        serde_json::from_slice(value).ok()
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn is_of(&self, token: &OwnerToken) -> bool {
        self.owner == hash(token)
    }

    pub fn is_held_by(&self, token: &OwnerToken) -> bool {
        self.is_of(token) && !self.is_kept
    }

    pub fn is_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    pub fn kept(self) -> Item {
        Item { is_kept: true, ..self }
    }

    pub fn broken_by(self, by: &Breaker) -> Item {
        Item { broken: by.as_str().to_owned(), ..self }
    }

    /// The rest of the min-hold: none of a lock that was broken.
    pub fn min_hold_left(&self) -> Duration {
        let held = unix_millis().saturating_sub(self.since);
        let min_hold = if self.is_broken() { 0 } else { self.min_hold_ms };
        Duration::from_millis(min_hold.saturating_sub(held)).min(LONGEST_TTL)
    }

    /// Its holder, with what is left of the item in seconds.
    pub fn holder(&self, left: Option<u64>) -> Holder {
        Holder {
            metadata: Some(Metadata::from_untrusted(&self.metadata)),
            fence: Some(FencingToken(self.fence)),
            since: Some(self.since),
            left: left.map(|left| Duration::from_secs(left.saturating_sub(ADDED))),
            hides_left: false,
            is_kept: self.is_kept,
            broken: Breaker::from_untrusted(&self.broken),
        }
    }
}

#[test]
fn names_are_short_and_plain_and_apart() {
    let key = |text: &str| text.parse::<Key>().map(|key| name(&key));
    assert_eq!(key("a/b:c"), Ok("redlock:a/b:c".to_owned()));
    let odd = ["a b".to_owned(), "ü".to_owned(), "x".repeat(243), "x".repeat(512)];
    let names: Vec<String> = odd.iter().filter_map(|text| key(text).ok()).collect();
    assert!(names.len() == 4 && names.iter().all(|name| name.starts_with("redlock-hash:")));
    assert!((1..4).all(|index| !names[..index].contains(&names[index])));
}

#[test]
fn an_item_outlives_its_lease() {
    let ttl = |text: &str| text.parse().map(|ttl: crate::lock::Ttl| seconds(ttl.duration()));
    assert_eq!([ttl("3s"), ttl("3100ms")], [Ok(5), Ok(6)]);
}
