//! etcd v3: one member or several of a cluster, in one line with `etcdctl lock`.
//!
//! From the bottom to the top: `socket` and `client` (a connection and its calls), `members` (which member is asked, within
//! which time), `layout` and `lease_id` (what a lock is in etcd), `ledger` (the calls that locks are made of), and the
//! store.

mod client;
mod error;
mod health;
mod key_data;
mod layout;
mod lease_id;
mod ledger;
mod members;
mod message;
mod predecessors;
mod release;
mod runtime;
mod socket;
mod status;
mod store;
mod url;
mod waiter;

pub use self::url::EtcdAddress;
