//! The embedded store: one SQLite file, for the processes of one host.
//!
//! Every call is one immediate transaction, so calls are atomic and come one after the other. Leases
//! are on the boot clock, beside the id of the boot: after a reboot nothing is held.

mod address;
mod database;
mod file_access;
mod health;
mod history;
mod holders;
mod host;
mod leases;
#[cfg(test)]
mod leases_test;
mod liveness;
#[cfg(test)]
mod local_test;
mod lock_state;
mod one_of;
mod owner_hash;
mod queue;
mod repair;
mod share;
mod store;
mod survey;
mod time_namespace;
mod wakeup;

pub use self::address::LocalAddress;
