use clap::CommandFactory;

use super::Outcome;
use super::failure;
use crate::cli::{Cli, CompletionsArgs};
use crate::output::print;

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redlock", &mut script);
    print(&script).map_err(|error| failure::of_printing(&error))?;
    Ok(Outcome::SUCCESS)
}
