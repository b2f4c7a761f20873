//! For GitHub Actions: masks and environment files, see "Workflow commands" in its documentation.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::command::acquire::Locks;
use crate::error::{Failed, NOT_HELD, Usage};
use crate::lock::OwnerToken;

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

    pub fn tell(&self, locks: &Locks) -> anyhow::Result<()> {
        let token = locks.token.expose();
        let (keys, fences) = (&locks.keys[..], &locks.fences[..]);
        let output = [("token", token), ("fence", fences), ("key", keys)];
        let env = [("REDLOCK_KEY", keys), ("REDLOCK_TOKEN", token), ("REDLOCK_FENCE", fences)];
        let failed = |what: &str, error: io::Error| Failed {
            code: NOT_HELD,
            why: format!("cannot write to {what}: {error}; gave {} back", locks.names),
        };
        for (path, values) in [(&self.output, output), (&self.env, env)] {
            if let Some(path) = path {
                let text: String = values.map(|(name, value)| setting(name, value)).concat();
                append(path, &text).map_err(|error| failed(&path.display().to_string(), error))?;
            }
        }
        Ok(())
    }
}

/// Keeps the token out of the log, from here on.
pub fn mask(token: &OwnerToken) -> anyhow::Result<()> {
    let mask = format!("::add-mask::{}\n", token.expose());
    let mut stdout = io::stdout();
    stdout.write_all(mask.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        let why = format!("cannot write to standard output: {error}; nothing was taken");
        Failed { code: NOT_HELD, why }.into()
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
