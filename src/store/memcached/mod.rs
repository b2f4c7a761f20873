//! Memcached: an exclusive lock is one item, added, changed and deleted by compare-and-swap.
//!
//! From the bottom to the top: `reply` and `connection` (the protocol), `item` (what a lock is in Memcached), and the store.
//!
//! Memcached may evict an item that nobody read for long, and forgets all of them when it restarts. Then two may hold one lock:
//! `doctor` and the documents say so.

mod connection;
mod health;
mod item;
mod reply;
mod store;
mod url;

use self::store::{CAPABILITIES, Memcached};
pub use self::url::MemcachedAddress;
use super::{Credentials, OpenOptions, StoreAddress};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};

impl StoreAddress for MemcachedAddress {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn takes_login(&self) -> bool {
        false
    }

    fn plain_server(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        Some(format!("{self} cannot be one of several servers; a lock is in one Memcached"))
    }

    fn examine(&self, _login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(self, terms)
    }

    fn open(&self, _options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Memcached::new(self))
    }
}
