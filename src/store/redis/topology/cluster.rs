//! Redis Cluster: which of its servers has which keys.

use redis::{ServerError, Value};

use super::NodeId;
use crate::lock::{Key, StoreError};
use crate::store::redis::keys::slot;
use crate::store::redis::net::endpoint::{Endpoint, LONGEST_HOST};
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::refusal::accepted;
use crate::store::redis::script::{items, number, text};

/// As many every cluster has.
const SLOTS: u16 = 16384;

/// The first and the last of a row of slots.
pub type Slots = (u16, u16);

/// What is known of the cluster.
#[derive(Default)]
pub struct Cluster {
    map: Vec<(Slots, NodeId)>,
    /// Something is wrong with this one, so the map has to be drawn anew.
    doubted: Option<NodeId>,
}

impl Cluster {
    /// The server that has the slot of this key, if that is known.
    pub fn node_of(&self, key: &Key) -> Option<NodeId> {
        if self.doubted.is_some() || self.map.is_empty() {
            return None;
        }
        let slot = slot(key);
        let has_it = |(first, last): Slots| first <= slot && slot <= last;
        self.map.iter().find(|(slots, _)| has_it(*slots)).map(|(_, node)| *node)
    }

    /// A server said who has this slot.
    pub fn learn(&mut self, slot: u16, node: NodeId) {
        self.map.retain(|(slots, _)| *slots != (slot, slot));
        self.map.insert(0, ((slot, slot), node));
    }

    /// The map may be wrong because of this server: nothing is looked up in it until it is drawn anew.
    pub fn doubt(&mut self, node: NodeId) {
        self.doubted = Some(node);
    }

    /// The one that is to be asked last when the map is drawn anew.
    pub fn doubted(&self) -> Option<NodeId> {
        self.doubted
    }

    /// Takes over the map that a server gave, and doubts nobody any more.
    pub fn drawn(&mut self, map: Vec<(Slots, NodeId)>) {
        *self = Cluster { map, doubted: None };
    }

    /// Those that have slots.
    pub fn masters(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.map.iter().map(|(_, node)| *node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The answer to CLUSTER SLOTS of the server `asked`: masters with their slots.
    pub fn read(reply: Value, asked: &Endpoint, name: &str) -> Result<Vec<(Slots, Endpoint)>, StoreError> {
        if let Value::ServerError(error) = &reply
            && error.details().unwrap_or_default().contains("cluster support disabled")
        {
            let why = "it is not part of a Redis Cluster; redis:// is the URL of a single server".to_owned();
            return Err(StoreError::Unusable { store: name.to_owned(), why });
        }
        let rows = items(accepted(reply, name)?);
        if rows.len() > usize::from(SLOTS) {
            let why = "it names more rows of slots than there are slots; is it a Redis Cluster?";
            return Err(RequestError::Broken(why.to_owned()).of(name));
        }
        let read_one = |row: Value| {
            let row = items(row);
            let slot = |index: usize| u16::try_from(number(row.get(index))).ok();
            let master = items(row.get(2)?.clone());
            let port = u16::try_from(number(master.get(1))).ok()?;
            Some(((slot(0)?, slot(1)?), endpoint(&text(master.first()), port, asked)?))
        };
        Ok(rows.into_iter().filter_map(read_one).collect())
    }
}

/// "Not here" of a server in a cluster.
pub enum Redirection {
    Moved {
        slot: u16,
        to: Endpoint,
    },
    /// The slot is on its way: this time only.
    Ask {
        to: Endpoint,
    },
}

impl Redirection {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`, as the server `asked` says it.
    pub fn read(error: &ServerError, asked: &Endpoint) -> Option<Redirection> {
        let code = error.code();
        if code != "MOVED" && code != "ASK" {
            return None;
        }
        let (slot, place) = error.details()?.split_once(' ')?;
        let (host, port) = place.trim().rsplit_once(':')?;
        let to = endpoint(host, port.parse().ok()?, asked)?;
        Some(match code {
            "ASK" => Redirection::Ask { to },
            _ => Redirection::Moved { slot: slot.parse().ok()?, to },
        })
    }
}

/// A server that does not know how others reach it gives no host, or `?`: then it is the one that was asked.
fn endpoint(host: &str, port: u16, asked: &Endpoint) -> Option<Endpoint> {
    let host = match (host, asked) {
        ("" | "?", Endpoint::Tcp { host, .. }) => host.clone(),
        ("" | "?", Endpoint::Unix(_)) => return None,
        (host, _) => host.to_owned(),
    };
    (port > 0 && host.len() <= LONGEST_HOST).then_some(Endpoint::Tcp { host, port })
}
