//! redlock: hold a distributed lock while a command runs.

#![cfg_attr(not(test), no_main)]

mod account;
mod cli;
mod clock;
mod command;
mod config;
#[cfg(test)]
mod documents;
mod harmless;
mod lock;
mod output;
mod process;
mod secret;
mod store;

process::start_with!(command::execute);
