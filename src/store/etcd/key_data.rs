//! The value of a key: what others are shown of its owner.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lock::{Metadata, Mode, Request, unix_millis};

/// What an owner says about itself. `etcdctl lock` leaves an empty value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyData {
    #[serde(flatten)]
    pub metadata: Metadata,
    /// When the lock was granted, in milliseconds since the Unix epoch, by the clock of the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<u64>,
    /// In milliseconds. Another process may release the lock.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_hold: u64,
    /// An exclusive lock that was granted in its turn: nobody stands before this key any more.
    #[serde(skip_serializing_if = "is_false")]
    pub alone: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl KeyData {
    /// In the queue.
    pub fn waiting(request: &Request) -> KeyData {
        let min_hold = request.min_hold.as_millis() as u64;
        KeyData { metadata: request.metadata.clone(), min_hold, ..KeyData::default() }
    }

    /// From now on.
    pub fn granted(request: &Request) -> KeyData {
        KeyData { granted: Some(unix_millis()), ..KeyData::waiting(request) }
    }

    /// From now on, after a wait in the queue.
    pub fn granted_in_turn(request: &Request) -> KeyData {
        KeyData { alone: request.mode == Mode::Exclusive, ..KeyData::granted(request) }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// `None` for what another program wrote.
    pub fn from_untrusted(bytes: &[u8]) -> Option<KeyData> {
        let raw: KeyData = serde_json::from_slice(bytes).ok()?;
        let metadata = Metadata::from_untrusted(&raw.metadata.to_json());
        Some(KeyData { metadata, ..raw })
    }

    /// What is left of the `min_hold`: by wall clocks, so never more than all of it.
    pub fn left_to_hold(&self) -> Duration {
        let held = self.granted.map_or(0, |granted| unix_millis().saturating_sub(granted));
        Duration::from_millis(self.min_hold.saturating_sub(held))
    }
}

#[test]
fn values_of_others_are_harmless() {
    assert!(KeyData::from_untrusted(b"").is_none() && KeyData::from_untrusted(b"\xff{").is_none());
    let hostile = br#"{"host":"a\u001b[2J","pid":1,"min_hold":5}"#;
    let value = KeyData::from_untrusted(hostile);
    assert_eq!(
        value.map(|value| (value.metadata.host, value.min_hold)),
        Some(("a\u{fffd}[2J".to_owned(), 5))
    );
}
