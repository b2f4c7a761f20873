//! redlock: hold a distributed lock while a command runs.

// A build with fewer features needs less of what they share.
#![cfg_attr(
    not(all(
        feature = "etcd",
        feature = "local",
        feature = "memcached",
        feature = "postgres",
        feature = "redis",
        feature = "watch",
        feature = "zookeeper"
    )),
    allow(dead_code, unused_imports)
)]

pub mod cli;
pub mod clock;
pub mod command;
pub mod completions;
mod doctor;
mod error;
mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[macro_use]
pub mod job;
pub mod lock;
mod mailbox;
pub mod options;
mod poll;
mod quoting;
mod report;
mod sanitize;
mod secret;
mod session;
pub mod store;
mod trusted_file;
mod user;
#[cfg(feature = "watch")]
mod watch;
