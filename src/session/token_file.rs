//! Files with an owner token.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use uuid::Uuid;

use crate::error::Failure;
use crate::lock::OwnerToken;
use crate::options::TokenSource;
use crate::secret::refuse_shared;

/// The owner token, from its file if it is in one.
pub fn owner_token(source: &TokenSource) -> Result<OwnerToken, Failure> {
    match source {
        TokenSource::Given(token) => Ok(token.clone()),
        TokenSource::File(path) => read(path),
    }
}

fn read(path: &Path) -> Result<OwnerToken, Failure> {
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let mut file = opened.map_err(|error| refused(path, &cause(&error)))?;
    refuse_shared(&file).map_err(|why| refused(path, &why))?;
    (&mut file).take(4096).read_to_string(&mut text).map_err(|error| refused(path, &cause(&error)))?;
    let token = text.lines().next().unwrap_or_default();
    token.parse().map_err(|why: String| refused(path, &why))
}

/// Refuses a symbolic link and a file of another user; called before the lock is acquired as well.
pub fn refuse_bad_target(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(refused(path, "it is a symbolic link")),
        Ok(found) if !found.is_file() => Err(refused(path, "it is not a regular file")),
        Ok(found) if found.uid() != geteuid().as_raw() => Err(refused(path, "it belongs to another user")),
        _ => Ok(()),
    }
}

/// Replaces the file by a new one with the token, which only this user can read: somebody may have the old one open.
pub fn write(path: &Path, token: &OwnerToken) -> Result<(), Failure> {
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

fn refused(path: &Path, why: &str) -> Failure {
    Failure::configuration(format!("token file {}: {why}", path.display()))
}

fn cause(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a symbolic link".to_owned(),
        _ => error.to_string(),
    }
}
