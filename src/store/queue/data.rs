//! The data of an entry: what its owner says about itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lock::{Breaker, FencingToken, Holder, Metadata, Mode, Request, unix_millis};

/// The data that an owner writes into its entry, in JSON. Entries of other programs have none, or something else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryData {
    #[serde(flatten)]
    pub metadata: Metadata,
    /// A mark: redlock wrote this.
    #[serde(skip_serializing_if = "is_default")]
    redlock: bool,
    /// When the lock was granted, in milliseconds since the Unix epoch, by the clock of the owner.
    #[serde(skip_serializing_if = "is_default")]
    pub granted: Option<u64>,
    /// The min-hold in milliseconds. Another process may release the lock.
    #[serde(skip_serializing_if = "is_default")]
    pub min_hold: u64,
    /// An exclusive lock was granted in its turn: nobody precedes this entry any more.
    #[serde(skip_serializing_if = "is_default")]
    pub alone: bool,
    /// The lock was released, and the entry stays until then.
    #[serde(skip_serializing_if = "is_default")]
    pub kept_until: Option<u64>,
    /// The session of the owner, masked with its token.
    #[serde(skip_serializing_if = "is_default")]
    pub session: Option<String>,
    /// The user that broke the lock, where this is written into the entry.
    #[serde(skip_serializing_if = "is_default")]
    broken: String,
}

/// The state of the owner of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits in the queue, or has been granted the lock and does not know yet.
    Waiting,
    /// It holds the lock, or is another program.
    Holding,
    /// It released the lock before the end of its min-hold.
    Kept,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl EntryData {
    /// The data of a waiter.
    pub fn waiting(request: &Request) -> EntryData {
        let min_hold = request.min_hold.as_millis() as u64;
        EntryData { metadata: request.metadata.clone(), redlock: true, min_hold, ..EntryData::default() }
    }

    /// The data of a holder from now on.
    pub fn granted(request: &Request) -> EntryData {
        EntryData { granted: Some(unix_millis()), ..EntryData::waiting(request) }
    }

    /// The data of a holder from now on, after a wait in the queue.
    pub fn granted_in_turn(request: &Request) -> EntryData {
        EntryData { alone: request.mode == Mode::Exclusive, ..EntryData::granted(request) }
    }

    /// The same after the release, for as long as the min-hold lasts.
    pub fn kept(self, left: Duration) -> EntryData {
        let until = unix_millis().saturating_add(left.as_millis() as u64);
        EntryData { kept_until: Some(until), session: None, ..self }
    }

    /// The same for a holder that is to stop.
    pub fn broken(self, by: &Breaker) -> EntryData {
        EntryData { broken: by.as_str().to_owned(), ..self }
    }

    pub fn breaker(&self) -> Option<Breaker> {
        Breaker::from_untrusted(&self.broken)
    }

    /// The stage, where the data alone say it.
    pub fn stage(&self) -> Stage {
        match (self.kept_until, self.granted) {
            (Some(_), _) => Stage::Kept,
            (None, Some(_)) => Stage::Holding,
            (None, None) => Stage::Waiting,
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the data of any program; `None` for what is not JSON.
    pub fn from_untrusted(bytes: &[u8]) -> Option<EntryData> {
        let raw: EntryData = serde_json::from_slice(bytes).ok()?;
        let metadata = Metadata::from_untrusted(&raw.metadata.to_json());
        Some(EntryData { metadata, ..raw })
    }

    /// Reads the data if it has the mark of redlock: other programs write JSON as well.
    pub fn of_redlock(bytes: &[u8]) -> Option<EntryData> {
        EntryData::from_untrusted(bytes).filter(|data| data.redlock)
    }

    /// The rest of the min-hold: by wall clocks, so never more than all of it.
    pub fn left_to_hold(&self) -> Duration {
        let held = self.granted.map_or(0, |granted| unix_millis().saturating_sub(granted));
        Duration::from_millis(self.min_hold.saturating_sub(held))
    }

    /// The holder with these data, whose entry has this number.
    pub fn holder(data: Option<&EntryData>, number: i64) -> Holder {
        let Some(data) = data else { return Holder::default() };
        Holder {
            metadata: Some(data.metadata.clone()),
            fence: Some(FencingToken(number.unsigned_abs())),
            since: Some(data.granted.unwrap_or(data.metadata.since)),
            ..Holder::default()
        }
    }
}

#[test]
fn data_of_others_are_harmless() {
    for foreign in [&b""[..], b"\xff{", b"10.0.0.1", b"{\"host\":\"a\"}"] {
        assert!(EntryData::of_redlock(foreign).is_none());
    }
    assert!(EntryData::from_untrusted(b"").is_none() && EntryData::from_untrusted(b"\xff{").is_none());
    let hostile = br#"{"redlock":true,"host":"a\u001b[2J","pid":1,"min_hold":5,"granted":3}"#;
    for data in [EntryData::of_redlock(hostile), EntryData::from_untrusted(hostile)] {
        let seen =
            data.map(|data| (data.metadata.host.clone(), data.min_hold, data.stage(), data.left_to_hold()));
        assert_eq!(seen, Some(("a\u{fffd}[2J".to_owned(), 5, Stage::Holding, Duration::ZERO)));
    }
}
