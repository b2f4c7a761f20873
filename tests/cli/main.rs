//! The program from outside: streams, exit status, signals, terminal, input.

#[path = "../harness/mod.rs"]
mod harness;

mod action;
mod break_prompt;
mod caller;
mod completions;
mod config;
mod doctor;
mod end_messages;
mod events;
mod github;
mod help;
mod history;
mod hooks;
mod input;
mod keeper;
mod label;
mod leftovers;
mod many_users;
mod metrics;
mod pipelines;
mod pool;
mod readme;
mod schemas;
mod screens;
mod shells;
mod signals;
mod status;
mod streams;
mod syslog;
mod terminal;
mod until;
mod user;
mod wait;
mod waiting_line;
#[cfg(feature = "watch")]
mod watch;
mod wrong_calls;
