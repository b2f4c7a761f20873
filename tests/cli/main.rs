//! The program from outside: streams, exit status, signals, terminal, input.

#[path = "../harness/mod.rs"]
mod harness;

mod account;
mod breaking;
mod caller;
mod doctor;
mod github;
mod input;
mod keeper;
mod label;
mod last_words;
mod leftovers;
mod shells;
mod signals;
mod status;
mod streams;
mod terminal;
