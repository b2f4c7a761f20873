//! The servers behind Sentinel, or of a cluster, that were heard of.

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use crate::lock::Result;
use crate::store::net::{Endpoint, RequestError};
use crate::store::redis::login::Login;
use crate::store::redis::server::Server;

/// All servers by their endpoint. None is forgotten, as a request may be in flight there.
pub struct KnownServers {
    login: Arc<Login>,
    store: String,
    /// The part that the servers have in the store; `None` where the store is a server.
    role: Option<&'static str>,
    servers: BTreeMap<Endpoint, Server>,
}

/// A cluster has fewer servers: "up to 1000 nodes", says its specification.
const MOST_SERVERS: usize = 2048;
/// The role of the primary that Sentinels name, and of those that were it.
pub const MASTER: &str = ", the master";

impl KnownServers {
    pub fn new(login: Login, store: String, role: Option<&'static str>) -> KnownServers {
        KnownServers { login: Arc::new(login), store, role, servers: BTreeMap::new() }
    }

    pub fn get(&mut self, endpoint: &Endpoint) -> Result<&mut Server> {
        let (name, count) = (self.name_of(endpoint), self.servers.len());
        match self.servers.entry(endpoint.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(_) if count >= MOST_SERVERS => {
                let why = format!("its servers name more than {MOST_SERVERS} others; is it a Redis Cluster?");
                Err(RequestError::Broken(why).of(&self.store))
            }
            Entry::Vacant(new) => {
                let mut server = Server::new(endpoint.clone(), Arc::clone(&self.login), name);
                server.must_be_primary = self.role == Some(MASTER);
                Ok(new.insert(server))
            }
        }
    }

    /// The name of a server in messages.
    pub fn name_of(&self, endpoint: &Endpoint) -> String {
        match self.role {
            Some(role) => format!("{endpoint}{role} of {}", self.store),
            None => self.store.clone(),
        }
    }

    pub fn store(&self) -> &str {
        &self.store
    }

    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.servers.keys().cloned().collect()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.servers.values_mut()
    }
}
