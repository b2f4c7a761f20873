//! Owner tokens on the command line and in files.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use uuid::Uuid;

use super::in_order;
use crate::cli::OwnerArgs;
use crate::error::{CONFIGURATION, Failed, Usage};
use crate::lock::{Key, OwnerToken};
use crate::secret::refuse_shared;

/// The keys that the arguments name, in the order in which locks are taken.
pub fn keys(args: &OwnerArgs) -> Result<Vec<Key>, Usage> {
    in_order(&args.keys)
}

/// The owner token that the arguments name. A file named on the command line is stronger than the token of
/// the environment.
pub fn token(args: &OwnerArgs) -> anyhow::Result<OwnerToken> {
    match (&args.token_file, &args.token) {
        (Some(path), _) => read(path),
        (None, Some(token)) => Ok(token.clone()),
        (None, None) => {
            Err(Usage::new("there is no owner token; give --token or --token-file, or set REDLOCK_TOKEN")
                .into())
        }
    }
}

fn read(path: &Path) -> anyhow::Result<OwnerToken> {
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let mut file = opened.map_err(|error| refused(path, &cause(&error)))?;
    refuse_shared(&file).map_err(|why| refused(path, &why))?;
    (&mut file).take(4096).read_to_string(&mut text).map_err(|error| refused(path, &cause(&error)))?;
    let token = text.lines().next().unwrap_or_default();
    token.parse().map_err(|why: String| refused(path, &why))
}

/// Refuses a symbolic link and a file of somebody else, before the lock is taken for nothing.
pub fn refuse_bad_target(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(refused(path, "it is a symbolic link")),
        Ok(found) if !found.is_file() => Err(refused(path, "it is no regular file")),
        Ok(found) if found.uid() != geteuid().as_raw() => Err(refused(path, "it belongs to another user")),
        _ => Ok(()),
    }
}

/// Puts a file with the token, which only this user can read, in the place of what is there: somebody may have that
/// open.
pub fn write(path: &Path, token: &OwnerToken) -> anyhow::Result<()> {
    refuse_bad_target(path)?;
    let new = path.with_file_name(format!(".redlock-{}", Uuid::new_v4()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(file, "{}", token.expose())?;
        fs::rename(&new, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        refused(path, &cause(&error))
    })
}

fn refused(path: &Path, why: &str) -> anyhow::Error {
    Failed { code: CONFIGURATION, why: format!("token file {}: {why}", path.display()) }.into()
}

fn cause(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a symbolic link".to_owned(),
        _ => error.to_string(),
    }
}
