//! Files with a password or an owner token.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use uuid::Uuid;

use crate::error::Failure;
use crate::lock::OwnerToken;

/// Refuses a file that others can read or change, and says what to do. What was opened is looked at: at its path may be
/// another one by now.
///
/// A pipe, as of `<(…)`, is seen by those only to whom it was given.
pub fn refuse_shared(file: &File) -> Result<(), String> {
    let metadata = file.metadata().map_err(|error| format!("cannot be looked at: {error}"))?;
    if !metadata.is_file() {
        return Ok(());
    }
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(format!("it belongs to user {}, neither to you nor to root; chown it", metadata.uid()));
    }
    match metadata.mode() & 0o066 {
        0 => Ok(()),
        _ => Err("others can read or change it; chmod 600 it".to_owned()),
    }
}

/// The first line of a file that nobody else can read.
pub fn read_password(path: &Path) -> Result<String, Failure> {
    let refused = |why: String| Failure::configuration(format!("password file {}: {why}", path.display()));
    let unreadable = |error| refused(format!("cannot be read: {error}"));
    let mut file = File::open(path).map_err(unreadable)?;
    refuse_shared(&file).map_err(refused)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(refused("its first line is empty; it should be the password".to_owned())),
    }
}

/// The owner token in the first line of a file that nobody else can read.
pub fn read_token(path: &Path) -> Result<OwnerToken, Failure> {
    let read = || {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cause)?;
        refuse_shared(&file)?;
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
    match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a symbolic link".to_owned(),
        _ => error.to_string(),
    }
}
