//! Files that decide what redlock does: who may have written them. The open file is judged, as its path may lead to another
//! file by now.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{getegid, geteuid, getgroups};
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
    #[error("others can read or change it; chmod 600 it, or give the secret of a container the mode 0400")]
    Shared,
}

/// Refuses a file that others can change: what it says is carried out, as root where root starts redlock.
pub fn refuse_writable(file: &File) -> Result<(), Untrusted> {
    refuse(file, 0o022, Untrusted::Writable)
}

/// Refuses a file that others can read or change. Root may hand one to a group, which can read it: a fleet's password for
/// the users of a group (0640), or the secret of a pod that has an fsGroup (0440).
pub fn refuse_shared(file: &File) -> Result<(), Untrusted> {
    let found = file.metadata()?;
    let is_handed_over =
        found.uid() == 0 && if geteuid().is_root() { found.gid() != 0 } else { is_our_group(found.gid()) };
    refuse(file, if is_handed_over { 0o026 } else { 0o066 }, Untrusted::Shared)
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

/// Mode bit of a folder in which only the owner of a file, and that of the folder, can remove or rename it, such as /tmp.
const STICKY: u32 = 0o1000;

/// Somebody who is not trusted and may put something else in the place of what is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacer {
    Owner(u32),
    Everyone,
}

/// The stranger who may do that, unless it is a group: a folder is a group's on purpose.
pub fn may_replace(folder: &Metadata) -> Option<Replacer> {
    let (mode, owner) = (folder.mode(), folder.uid());
    let is_root_outside = || owner == NOBODY && is_in_user_namespace();
    if !is_trusted(owner) && !is_root_outside() {
        Some(Replacer::Owner(owner))
    } else if mode & (STICKY | 0o002) == 0o002 {
        Some(Replacer::Everyone)
    } else {
        None
    }
}

/// Refuses a folder below one in which others can replace it, as sshd(8) does for its keys.
pub fn check_parents(folder: &Path) -> Result<(), String> {
    match fs::canonicalize(folder) {
        Ok(real) => check_folders(real.ancestors().skip(1)),
        Err(_) => Ok(()),
    }
}

/// Refuses a file in such a folder. The file is not looked at: it is open.
pub fn check_folders_of(file: &Path) -> Result<(), String> {
    match fs::canonicalize(folder_of(file)) {
        Ok(real) => check_folders(real.ancestors()),
        Err(_) => Ok(()),
    }
}

pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn check_folders<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    for parent in folders {
        let found = fs::metadata(parent).ok().and_then(|found| may_replace(&found));
        let who = match found {
            None => continue,
            Some(Replacer::Owner(owner)) => format!("user {owner}, who owns {}", parent.display()),
            Some(Replacer::Everyone) => format!("everyone who may write to {}", parent.display()),
        };
        return Err(format!("it may be replaced by {who}; choose another folder"));
    }
    Ok(())
}

/// The kernel shows this one for root, and others, whom a user namespace does not have: see user_namespaces(7).
const NOBODY: u32 = 65534;

fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

pub fn is_our_group(group: u32) -> bool {
    getegid().as_raw() == group || getgroups().is_ok_and(|all| all.contains(&group.into()))
}

pub fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn refuse(file: &File, others: u32, why: Untrusted) -> Result<(), Untrusted> {
    let metadata = file.metadata()?;
    // A pipe, as of `<(…)`, is seen by those only to whom it was given.
    if !metadata.is_file() {
        return Ok(());
    }
    if !is_trusted(metadata.uid()) {
        return Err(Untrusted::Foreign(metadata.uid()));
    }
    if metadata.mode() & others == 0 { Ok(()) } else { Err(why) }
}
