//! What goes wrong, and that nothing of a job is alive then under somebody else's lock.

#[path = "../harness/mod.rs"]
mod harness;

mod answers;
mod blame;
mod call;
mod connections;
mod containers;
mod contenders;
mod doctor;
mod encrypted;
mod failover;
mod files;
mod holder;
mod hostile;
mod quorum;
mod scene;
mod sentinels;
mod server;
mod several;
mod start;
mod torn;
mod users;
mod vanished;
