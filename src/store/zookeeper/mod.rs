//! ZooKeeper: one server or several of an ensemble, in one line with `Lock` of kazoo and `InterProcessMutex` of Curator.
//!
//! From the bottom to the top: `jute`, `message` and `connection` (the protocol), `session` and `client` (a session, on one
//! server after the other), `layout` and `contender` (what a lock is in ZooKeeper, by the names of the nodes), `node_data` (their
//! data), `ledger` (the calls that locks are made of), `owner` (what holds locks), `grant` (how it gets
//! them) and `waiter` (a place in the queue), and
//! the store.

mod client;
mod connection;
mod contender;
mod error;
mod grant;
mod health;
mod jute;
mod layout;
mod ledger;
mod message;
mod node_data;
mod owner;
mod recipe;
mod renewal;
mod session;
mod status;
mod store;
mod url;
mod waiter;

use self::store::{CAPABILITIES, ZooKeeper};
pub use self::url::ZooKeeperAddress;
use super::{Credentials, OpenOptions, StoreAddress};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};

/// Reads what a server may answer, and the data of a node.
#[cfg(any(test, fuzzing))]
pub fn read_anything(bytes: &[u8]) {
    message::read_packet(bytes);
    let data = node_data::NodeData::from_untrusted(bytes);
    data.iter().for_each(|data| _ = (data.stage(), data.left_to_hold(), data.breaker()));
}

impl StoreAddress for ZooKeeperAddress {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn has_password(&self) -> bool {
        self.ensemble.password.is_some()
    }

    fn plain_server(&self) -> Option<String> {
        (!self.ensemble.is_encrypted).then(|| self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        Some(format!("{self} cannot be one of several servers; name the servers of one ensemble in one URL"))
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(&self.clone().with(login), terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(ZooKeeper::new(self.clone().with(&options.credentials)))
    }
}
