//! Memcached: an exclusive lock is one item, added, changed and deleted by compare-and-swap.
//!
//! From the bottom to the top: `reply` and `connection` (the protocol), `item` (what a lock is in Memcached), and the store.
//!
//! Memcached may evict an item that nobody read for long, and forgets all of them when it restarts. Then two may hold one lock:
//! `doctor` and the documents say so.

mod address;
mod connection;
mod health;
mod item;
mod reply;
mod store;

pub use self::address::MemcachedAddress;
