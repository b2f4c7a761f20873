//! The data of a node: what others are shown of its owner, and how its owner finds the session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::lock::{Breaker, Metadata, Request, unix_millis};

/// What an owner says about itself. kazoo's contenders have no JSON in their data, and Curator's an IP address.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeData {
    #[serde(flatten)]
    pub metadata: Metadata,
    /// Of redlock only.
    redlock: bool,
    /// When the lock was granted, in milliseconds since the Unix epoch, by the clock of the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<u64>,
    /// In milliseconds. Another process may release the lock.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_hold: u64,
    /// Nobody holds it any more, and it stays until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<u64>,
    /// See [`Session::masked`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Who broke the lock.
    #[serde(skip_serializing_if = "String::is_empty")]
    broken: String,
}

/// What it means that a node is among the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStage {
    /// The owner stands in the queue. It has not seen a grant.
    Waiting,
    Holding,
    /// The lock was released before its min-hold was over.
    Kept,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl NodeData {
    /// In the queue.
    pub fn waiting(request: &Request) -> NodeData {
        let min_hold = request.min_hold.as_millis() as u64;
        NodeData { metadata: request.metadata.clone(), redlock: true, min_hold, ..NodeData::default() }
    }

    /// From now on, in this session.
    pub fn granted(request: &Request, session: &Session) -> NodeData {
        let session = Some(session.masked(&request.token));
        NodeData { granted: Some(unix_millis()), session, ..NodeData::waiting(request) }
    }

    /// Nobody's any more, for this long.
    pub fn kept(self, left: Duration) -> NodeData {
        let until = unix_millis().saturating_add(left.as_millis() as u64);
        NodeData { kept_until: Some(until), session: None, ..self }
    }

    /// Its holder is to stop.
    pub fn broken(self, by: &Breaker) -> NodeData {
        NodeData { broken: by.as_str().to_owned(), ..self }
    }

    pub fn breaker(&self) -> Option<Breaker> {
        Breaker::from_untrusted(&self.broken)
    }

    pub fn stage(&self) -> NodeStage {
        match (self.kept_until, self.granted) {
            (Some(_), _) => NodeStage::Kept,
            (None, Some(_)) => NodeStage::Holding,
            (None, None) => NodeStage::Waiting,
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// `None` for what another program wrote.
    pub fn from_untrusted(bytes: &[u8]) -> Option<NodeData> {
        let raw: NodeData = serde_json::from_slice(bytes).ok().filter(|raw: &NodeData| raw.redlock)?;
        let metadata = Metadata::from_untrusted(&raw.metadata.to_json());
        Some(NodeData { metadata, ..raw })
    }

    /// What is left of the `min_hold`: by wall clocks, so never more than all of it.
    pub fn left_to_hold(&self) -> Duration {
        let held = self.granted.map_or(0, |granted| unix_millis().saturating_sub(granted));
        Duration::from_millis(self.min_hold.saturating_sub(held))
    }
}

#[test]
fn values_of_others_are_harmless() {
    for foreign in [&b""[..], b"\xff{", b"10.0.0.1", b"{\"host\":\"a\"}"] {
        assert!(NodeData::from_untrusted(foreign).is_none());
    }
    let hostile = br#"{"redlock":true,"host":"a\u001b[2J","pid":1,"min_hold":5,"granted":3}"#;
    let value = NodeData::from_untrusted(hostile);
    let seen = value.map(|value| (value.metadata.host.clone(), value.stage(), value.left_to_hold()));
    assert_eq!(seen, Some(("a\u{fffd}[2J".to_owned(), NodeStage::Holding, Duration::ZERO)));
}
