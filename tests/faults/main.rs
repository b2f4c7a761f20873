//! What goes wrong, and that nothing of a job is alive then under somebody else's lock.

#[path = "../harness/mod.rs"]
mod harness;

mod answers;
mod failover;
mod files;
mod holder;
mod scene;
mod server;
