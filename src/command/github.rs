//! For GitHub Actions: masks and environment files, see "Workflow commands" in its documentation.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::failure::{Failed, NOT_HELD, Usage};
use crate::lock::Lease;

/// The files from which the runner reads what a step has to say.
pub struct Workflow {
    /// For `steps.ID.outputs`.
    output: Option<PathBuf>,
    /// For the environment of the steps after this one.
    env: Option<PathBuf>,
}

impl Workflow {
    pub fn of_environment() -> Result<Workflow, Usage> {
        let file = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        match (file("GITHUB_OUTPUT"), file("GITHUB_ENV")) {
            (None, None) => Err(Usage::new(
                "--format github is for a step of GitHub Actions: neither GITHUB_OUTPUT nor GITHUB_ENV is set",
            )),
            (output, env) => Ok(Workflow { output, env }),
        }
    }

    /// The mask comes first, so that no log shows the token.
    pub fn tell(&self, lease: &Lease) -> anyhow::Result<()> {
        let (key, token, fence) = (lease.request.key.as_str(), lease.request.token.expose(), lease.fence);
        // A key has no line feed, so NAME=VALUE takes it as it is.
        let output = format!("token={token}\nfence={fence}\nkey={key}\n");
        let env = format!("REDLOCK_KEY={key}\nREDLOCK_TOKEN={token}\nREDLOCK_FENCE={fence}\n");
        let mask = || {
            let mut stdout = io::stdout();
            writeln!(stdout, "::add-mask::{token}")?;
            stdout.flush()
        };
        let failed = |what: &str, error: io::Error| Failed {
            code: NOT_HELD,
            why: format!("cannot write to {what}: {error}; '{key}' was given back"),
        };
        mask().map_err(|error| failed("standard output", error))?;
        for (path, text) in [(&self.output, output), (&self.env, env)] {
            if let Some(path) = path {
                append(path, &text).map_err(|error| failed(&path.display().to_string(), error))?;
            }
        }
        Ok(())
    }
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
