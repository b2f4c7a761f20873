//! For GitHub Actions: masks and environment files, see "Workflow commands" in its documentation.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::acquired::AcquiredLocks;
use super::output::print_all;
use crate::error::{Failure, NOT_HELD};
use crate::lock::OwnerToken;

/// The files that the runner reads after a step.
pub struct Workflow {
    /// For `steps.ID.outputs`.
    output: Option<PathBuf>,
    /// For the environment of later steps.
    env: Option<PathBuf>,
}

impl Workflow {
    pub fn from_environment() -> Result<Workflow, Failure> {
        let file = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        match (file("GITHUB_OUTPUT"), file("GITHUB_ENV")) {
            (None, None) => Err(Failure::usage(
                "--format github is for a step of GitHub Actions: neither GITHUB_OUTPUT nor GITHUB_ENV is set",
            )),
            (output, env) => Ok(Workflow { output, env }),
        }
    }

    pub fn write(&self, locks: &AcquiredLocks) -> Result<(), Failure> {
        let mut output = vec![
            ("token", locks.token.expose().to_owned()),
            ("fence", locks.fences()),
            ("key", locks.keys()),
        ];
        output.extend(locks.permits().map(|permits| ("permit", permits)));
        for (path, values) in [(&self.output, output), (&self.env, locks.variables())] {
            if let Some(path) = path {
                let text: String = values.iter().map(|(name, value)| setting(name, value)).collect();
                append(path, &text).map_err(|error| {
                    Failure::new(NOT_HELD, format!("cannot write to {}: {error}", path.display()))
                })?;
            }
        }
        Ok(())
    }
}

/// Keeps the token out of the log from here on.
pub fn mask(token: &OwnerToken) -> Result<(), Failure> {
    print_all(format!("::add-mask::{}\n", token.expose()).as_bytes()).map_err(|error| {
        let reason = format!("cannot write to standard output: {error}; nothing was acquired");
        Failure::new(NOT_HELD, reason)
    })
}

/// A value of several lines stands between two lines that are not in it.
fn setting(name: &str, value: &str) -> String {
    if value.contains('\n') {
        let end = Uuid::new_v4();
        format!("{name}<<{end}\n{value}\n{end}\n")
    } else {
        format!("{name}={value}\n")
    }
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
