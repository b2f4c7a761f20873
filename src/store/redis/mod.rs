//! Redis or Valkey: one server, the primary that Sentinels name, or the servers of a cluster.
//!
//! From the bottom to the top: `connection`, `server` (one server, what is in flight there), `topology` (the
//! server for a key), and the store. A `quorum` has a server for each member. `script` has the operations, which run on
//! whatever leads to the server of a key (`routing`).

mod acquire;
mod address;
mod connection;
mod health;
mod history;
mod in_flight;
mod index;
mod keys;
mod login;
mod one_of;
mod queue_place;
mod quorum;
mod replicas;
mod reply;
mod routing;
mod script;
mod server;
mod store;
mod subscription;
mod survey;
mod topology;
mod url;

pub use self::address::QuorumAddress;
pub use self::url::RedisAddress;

/// Reads what a server may send, as the reply to each operation.
#[cfg(any(test, fuzzing))]
pub fn read_anything(bytes: &[u8], keys: &[crate::lock::Key]) {
    let Ok(reply) = ::redis::parse_redis_value(bytes) else { return };
    script::read_reply(&reply, keys);
    topology::read_slots(reply);
}
