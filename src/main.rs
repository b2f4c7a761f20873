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

fn main() -> ! {
    command::execute()
}
