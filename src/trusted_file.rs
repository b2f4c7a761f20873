//! Files that decide what redlock does: who may have written them. What was opened is judged, as its path may lead to another
//! file by now.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::unistd::geteuid;
use thiserror::Error;

/// Why a file is not trusted, and what to do about it.
#[derive(Debug, Error)]
pub enum Untrusted {
    #[error("cannot be looked at: {0}")]
    Unknown(#[from] io::Error),
    #[error("it belongs to user {0}, neither to you nor to root; chown it")]
    Foreign(u32),
    #[error("others can change it; chmod go-w it")]
    Writable,
    #[error("others can read or change it; chmod 600 it")]
    Shared,
}

/// Refuses a file that others can change: what it says is carried out, as root where root starts redlock.
pub fn refuse_writable(file: &File) -> Result<(), Untrusted> {
    refuse(file, 0o022, Untrusted::Writable)
}

/// Refuses a file that others can read or change.
pub fn refuse_shared(file: &File) -> Result<(), Untrusted> {
    refuse(file, 0o066, Untrusted::Shared)
}

/// Refuses a file of another user, other than root.
pub fn refuse_foreign(file: &File) -> Result<(), Untrusted> {
    refuse(file, 0, Untrusted::Writable)
}

/// The error of an open with O_NOFOLLOW, in plain words.
pub fn without_link(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link; name the file itself"),
        _ => error,
    }
}

fn refuse(file: &File, others: u32, why: Untrusted) -> Result<(), Untrusted> {
    let metadata = file.metadata()?;
    // A pipe, as of `<(…)`, is seen by those only to whom it was given.
    if !metadata.is_file() {
        return Ok(());
    }
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(Untrusted::Foreign(metadata.uid()));
    }
    if metadata.mode() & others == 0 { Ok(()) } else { Err(why) }
}
