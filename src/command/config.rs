//! `redlock config`: shows the settings in force, or checks a file.

use std::path::Path;

use crate::error::{Failure, Outcome};
use crate::options::check_file;
use crate::report::{SettingInForce, print, settings};

pub fn config(in_force: &[SettingInForce]) -> anyhow::Result<Outcome> {
    print(settings(in_force).as_bytes()).map_err(Failure::not_printed)?;
    Ok(Outcome::SUCCESS)
}

pub fn check(file: &Path) -> anyhow::Result<Outcome> {
    check_file(file)?;
    Ok(Outcome::SUCCESS)
}
