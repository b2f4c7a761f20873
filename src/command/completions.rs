//! `redlock completions`: prints a completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::{Failure, Outcome};
use crate::report::print;

pub fn completions(shell: Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "redlock", &mut script);
    print(&script).map_err(Failure::not_printed)?;
    Ok(Outcome::SUCCESS)
}
