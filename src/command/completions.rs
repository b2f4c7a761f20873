use std::io::{self, Write};

use clap::CommandFactory;

use super::Outcome;
use crate::cli::{Cli, CompletionsArgs};

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redlock", &mut script);
    let _ = io::stdout().write_all(&script);
    Ok(Outcome::SUCCESS)
}
