//! What goes wrong, and that nothing of a job is alive then under somebody else's lock.

#[path = "../harness/mod.rs"]
mod harness;

mod answers;
mod connections;
mod containers;
mod doctor;
mod encrypted;
mod etcd;
mod failing_call;
mod failover;
mod files;
mod foreign_keys;
mod holder;
mod hostile;
mod memcached;
mod night;
mod partial_request;
mod pooler;
mod postgres;
mod prepared;
mod quorum;
mod quorum_contention;
mod sentinels;
mod server;
mod several_keys;
mod start;
mod takeover;
mod undisturbed;
mod unreachable_server;
mod users;
mod vanished;
mod zookeeper;
