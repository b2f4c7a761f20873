//! Fencing tokens in practice: the scripts of this folder, each with a job that was frozen together with its
//! redlock and its guard, and goes on when its lock has passed to another.

#[path = "../harness/mod.rs"]
mod harness;

mod in_transaction;
mod late_writer;
mod ledger;
mod report;
mod transaction;
