//! ZooKeeper: one server or several of an ensemble, in one line with `Lock` of kazoo and `InterProcessMutex` of Curator.
//!
//! From the bottom to the top: `jute`, `message` and `connection` (the protocol), `session` and `client` (a session, on one
//! server after the other), `layout` and `contender` (what a lock is in ZooKeeper, by the names of the nodes), `value` (their
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
mod session;
mod status;
mod store;
mod url;
mod waiter;

pub use self::url::ZooKeeperAddress;
