//! One file for each subcommand: its story, top to bottom.

pub mod acquire;
mod r#break;
mod check;
mod completions;
mod doctor;
mod release;
mod renew;
pub mod run;
mod status;

use std::env;
use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::error::{self, Outcome};
use crate::options::{Context, Given};
use crate::session::eval_guard;

/// Reads the command line, does what it says, and ends. Never returns, as destructors would only take time.
pub fn execute() -> ! {
    // Help and tips name every subcommand.
    let (outcome, shell) = match arguments().try_get_matches().or_else(|_| built().try_get_matches()) {
        Ok(matches) => {
            (obey(&matches).unwrap_or_else(|error| error::report(&error)), eval_guard::shell(&matches))
        }
        Err(error) => (error::of_arguments(error), eval_guard::shell_in_words()),
    };
    if let Some(shell) = shell {
        eval_guard::stop_unless_taken(shell, outcome);
    }
    outcome.end()
}

/// What the command line may have. A variable that is empty counts as not set.
fn arguments() -> clap::Command {
    let is_empty = |(name, value): (OsString, OsString)| {
        value.is_empty() && name.as_encoded_bytes().starts_with(b"REDLOCK_")
    };
    if env::vars_os().any(is_empty) { built() } else { Cli::command() }
}

/// The command with all its subcommands, which are otherwise built when they are needed.
fn built() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    without_empty_variables(command)
}

fn without_empty_variables(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_env().and_then(env::var_os) {
        Some(value) if value.is_empty() => arg.env(None),
        _ => arg,
    });
    command.mut_subcommands(without_empty_variables)
}

fn obey(matches: &ArgMatches) -> anyhow::Result<Outcome> {
    let Cli { global, command } = Cli::from_arg_matches(matches)?;
    let given = Given::in_matches(matches);
    let context = || Context::new(global, given);
    match command {
        Command::Run(args) => run::run(args, &context()?),
        Command::Acquire(args) => acquire::acquire(args, given, &context()?),
        Command::Renew(args) => renew::renew(&args, &context()?),
        Command::Check(args) => check::check(&args, &context()?),
        Command::Release(args) => release::release(&args, &context()?),
        Command::Status(args) => status::status(&args, &context()?),
        Command::Break(args) => r#break::break_lock(&args, &context()?),
        Command::Doctor(args) => doctor::doctor(&args, &context()?),
        Command::Completions(args) => completions::completions(&args),
    }
}
