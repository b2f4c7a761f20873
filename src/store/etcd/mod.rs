//! etcd v3: one member or several of a cluster, in one line with `etcdctl lock`.
//!
//! From the bottom to the top: `socket` and `client` (a connection and its calls), `members` (which member is asked, within
//! which time), `layout` and `lease_id` (what a lock is in etcd), `calls` (the calls that locks are made of), and the
//! store.

mod acquire;
mod calls;
mod client;
mod error;
mod grant;
mod health;
mod keep_alive;
mod layout;
mod lease_id;
mod members;
mod message;
mod predecessors;
mod recipe;
mod release;
mod runtime;
mod socket;
mod store;
mod streams;
mod survey;
mod url;
mod waiter;

pub use self::layout::EtcdAddress;

/// Reads what a member may answer, and the values of the keys in it.
#[cfg(any(test, fuzzing))]
pub fn read_anything(bytes: &[u8]) {
    let values = message::read_answer(bytes).into_iter().map(|kv| kv.value);
    values.chain([bytes.to_vec()]).for_each(|value| _ = super::queue::EntryData::of_redlock(&value));
}
