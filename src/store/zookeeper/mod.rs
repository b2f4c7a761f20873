//! ZooKeeper: one server or several of an ensemble, in one line with `Lock` of kazoo and `InterProcessMutex` of Curator.
//!
//! From the bottom to the top: `jute`, `node`, `message` and `connection` (the protocol), `session` and `client` (a session, on one
//! server after the other), `layout` and `contender` (what a lock is in ZooKeeper, by the names of the nodes), `calls` (the calls that
//! locks are made of), `owner` (a session that holds locks), `grant` (how it gets
//! them) and `waiter` (a place in the queue), and
//! the store.

mod calls;
mod client;
mod connection;
mod contender;
mod error;
mod grant;
mod health;
mod jute;
mod layout;
mod message;
mod node;
mod owner;
mod recipe;
mod renewal;
mod session;
mod store;
mod survey;
mod url;
mod waiter;

pub use self::layout::ZooKeeperAddress;

/// Reads what a server may answer, and the data of a node.
#[cfg(any(test, fuzzing))]
pub fn read_anything(bytes: &[u8]) {
    message::read_packet(bytes);
    let _ = super::queue::EntryData::of_redlock(bytes).map(|data| data.breaker());
}
