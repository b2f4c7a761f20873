//! The servers behind Sentinel, or of a cluster, that were heard of.

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use crate::lock::Result;
use crate::store::redis::login::Login;
use crate::store::redis::net::{Endpoint, RequestError};
use crate::store::redis::server::Server;

/// All servers by their endpoint. None is forgotten, as a request may be in flight there.
pub struct Servers {
    login: Arc<Login>,
    /// What messages call the store.
    store: String,
    are_of_sentinels: bool,
    servers: BTreeMap<Endpoint, Server>,
}

/// A cluster has fewer servers: "up to 1000 nodes", says its specification.
const MOST_SERVERS: usize = 2048;

impl Servers {
    /// The servers of a cluster.
    pub fn of_cluster(login: Login, store: &str) -> Servers {
        let (login, store) = (Arc::new(login), store.to_owned());
        Servers { login, store, are_of_sentinels: false, servers: BTreeMap::new() }
    }

    /// The primary that Sentinels name, and those that were it.
    pub fn of_sentinels(login: Login, store: &str) -> Servers {
        Servers { are_of_sentinels: true, ..Servers::of_cluster(login, store) }
    }

    /// The server at this endpoint; an error when there are more than can be.
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
                server.must_be_primary = self.are_of_sentinels;
                Ok(new.insert(server))
            }
        }
    }

    /// What messages call a server.
    pub fn name_of(&self, endpoint: &Endpoint) -> String {
        let role = if self.are_of_sentinels { ", the master" } else { "" };
        format!("{endpoint}{role} of {}", self.store)
    }

    /// What messages call the store.
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
