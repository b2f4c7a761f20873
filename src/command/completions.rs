use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::error;
use crate::error::Outcome;
use crate::report::print;

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redlock", &mut script);
    print(&script).map_err(|error| error::of_printing(&error))?;
    Ok(Outcome::SUCCESS)
}
