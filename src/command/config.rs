//! `redlock config`: shows the settings in force, or checks a file.

use std::path::Path;

use crate::error::{Failure, Outcome};
use crate::options::check_file;
use crate::report::{SettingInForce, print, settings};

/// Prints the settings, and fails then with what other subcommands would refuse in them.
pub fn config(in_force: &[SettingInForce], refused: Option<Failure>) -> anyhow::Result<Outcome> {
    print(settings(in_force).as_bytes()).map_err(Failure::not_printed)?;
    refused.map_or(Ok(Outcome::SUCCESS), |refused| Err(refused.into()))
}

pub fn check(file: &Path) -> anyhow::Result<Outcome> {
    check_file(file)?;
    Ok(Outcome::SUCCESS)
}
