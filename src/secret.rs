//! Files with a password or an owner token.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use uuid::Uuid;

use crate::error::Failure;
use crate::lock::OwnerToken;
use crate::trusted_file::{refuse_shared, without_link};

/// No password is longer; a device that never ends is given up here.
const LONGEST: u64 = 64 << 10;

/// The first line of a file that nobody else can read. A byte order mark and empty lines before it do not count: editors and
/// templates put them there.
pub fn read_password(path: &Path) -> Result<String, Failure> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("cannot be read: {error}; root lets a group read it: chgrp GROUP and chmod 640 it")
        }
        _ => format!("cannot be read: {error}"),
    });
    file.and_then(password_in)
        .map_err(|why| Failure::configuration(format!("password file {}: {why}", path.display())))
}

/// The password that is in the file now; `None` for a pipe, which can be read once, and for a file that is being replaced.
pub fn read_password_again(path: &Path) -> Option<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    password_in(file).ok()
}

fn password_in(file: File) -> Result<String, String> {
    refuse_shared(&file).map_err(|why| why.to_string())?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let first = lines.find(|line| !line.is_empty());
    first.map(str::to_owned).ok_or_else(|| "it is empty; its first line should be the password".to_owned())
}

/// The owner token in the first line of a file that nobody else can read.
pub fn read_token(path: &Path) -> Result<OwnerToken, Failure> {
    let read = || {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cause)?;
        refuse_shared(&file).map_err(|why| why.to_string())?;
        let mut text = String::new();
        (&mut file).take(4096).read_to_string(&mut text).map_err(cause)?;
        text.lines().next().unwrap_or_default().parse()
    };
    read().map_err(|why: String| refused(path, &why))
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
pub fn write_token(path: &Path, token: &OwnerToken) -> Result<(), Failure> {
    refuse_bad_target(path)?;
    let new = path.with_file_name(format!(".redlock-{}", Uuid::new_v4()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(file, "{}", token.expose())?;
        fs::rename(&new, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        refused(path, &cause(error))
    })
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::configuration(format!("token file {}: {why}", path.display()))
}

fn cause(error: io::Error) -> String {
    without_link(error).to_string()
}
