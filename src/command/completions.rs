//! `redlock completions`: prints a completion script.

use crate::cli::Shell;
use crate::completions::script;
use crate::error::{Failure, Outcome};
use crate::report::print;

pub fn completions(shell: Shell) -> anyhow::Result<Outcome> {
    print(script(shell).as_bytes()).map_err(Failure::not_printed)?;
    Ok(Outcome::SUCCESS)
}
