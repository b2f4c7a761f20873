//! redlock: hold a distributed lock while a command runs.

mod account;
mod cli;
mod clock;
mod command;
mod config;
#[cfg(test)]
mod documents;
mod lock;
mod output;
mod process;
mod store;

use std::process::ExitCode;

use command::Outcome;

fn main() -> ExitCode {
    match command::execute() {
        Outcome::Exit(code) => ExitCode::from(code),
        Outcome::Signal(signal) => process::die_of(signal),
    }
}
