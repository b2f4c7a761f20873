//! The way to find the primary of a key: there is one server, or the Sentinels or the nodes of a cluster know it.

use super::cluster::Cluster;
use super::known_servers::KnownServers;
use super::retry::attempt_of;
use super::sentinel::Sentinels;
use crate::lock::{Result, Timeout};
use crate::store::net::Endpoint;
use crate::store::redis::routing::Target;

/// The source that knows the primary.
pub enum Discovery {
    /// There is one server, which is always the primary.
    Single(Endpoint),
    Sentinels(Box<Sentinels>),
    Cluster(Cluster),
}

impl Discovery {
    /// The primary of this target, as far as that is known.
    pub fn known(&self, target: Target) -> Option<Endpoint> {
        match (self, target) {
            (Discovery::Single(endpoint), _) => Some(endpoint.clone()),
            (_, Target::Server(server)) => Some(server.clone()),
            (Discovery::Sentinels(sentinels), _) => sentinels.primary.clone(),
            (Discovery::Cluster(cluster), Target::Key(key)) => cluster.primary_of(key).cloned(),
            (Discovery::Cluster(_), Target::Any) => None,
        }
    }

    /// Asks for the primaries again.
    pub fn refresh(&mut self, servers: &mut KnownServers, timeout: &Timeout) -> Result<()> {
        match self {
            Discovery::Single(_) => Ok(()),
            Discovery::Sentinels(sentinels) => sentinels.refresh(timeout).map(drop),
            Discovery::Cluster(cluster) => cluster.refresh_slots(servers, timeout),
        }
    }

    /// All primaries, as they are now.
    pub fn primaries(&mut self, servers: &mut KnownServers, timeout: &Timeout) -> Result<Vec<Endpoint>> {
        match self {
            Discovery::Single(endpoint) => Ok(vec![endpoint.clone()]),
            Discovery::Sentinels(sentinels) => sentinels.refresh(timeout).map(|primary| vec![primary]),
            Discovery::Cluster(cluster) => {
                cluster.refresh_slots(servers, &attempt_of(timeout))?;
                Ok(cluster.primaries())
            }
        }
    }

    /// The server failed: before the next request its primary is asked for again.
    pub fn suspect(&mut self, server: &Endpoint) {
        match self {
            Discovery::Single(_) => {}
            Discovery::Sentinels(sentinels) => sentinels.suspect(),
            Discovery::Cluster(cluster) => cluster.suspect(server),
        }
    }
}
