//! Sets a file up so that a group can share it: the file, its journal, and their folder.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::file_access::{GROUP, SET_GROUP_ID, create, journal_of};
use super::store::Local;
use crate::lock::{StoreAdmin, Timeout};
use crate::trusted_file::{folder_of, refuse_foreign, without_link};
use crate::user::group_id;

/// Gives the file at `path`, which is made when it is missing, to a group. Other files may not be in its folder: the group can
/// replace everything there.
pub fn share(path: &Path, group: &str, timeout: &Timeout) -> Result<(), String> {
    let id = group_id(group)?;
    let folder = folder_of(path);
    if !folder.exists() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let is_ready = fs::metadata(folder).is_ok_and(|found| {
        found.gid() == id && found.mode() & (SET_GROUP_ID | 0o030) == SET_GROUP_ID | 0o030
    });
    if let Some(other) = other_file(path).filter(|_| !is_ready) {
        let (folder, other) = (folder.display(), other.display());
        return Err(format!("{folder} also has {other}, which the group could replace; name a new folder"));
    }
    // Whatever is wrong with the file is found out before it is given away.
    Local::new(Some(path.to_owned()), Vec::new()).survey(&[], timeout).map_err(|error| error.to_string())?;
    let give = || -> io::Result<()> {
        let journal = journal_of(path);
        create(&journal, 0o600)?;
        [path, &journal].into_iter().try_for_each(|file| hand_over(&open(file)?, id, 0o600 | GROUP))?;
        if is_ready { Ok(()) } else { hand_over(&File::open(folder)?, id, SET_GROUP_ID | 0o770) }
    };
    give().map_err(|error| format!("cannot give {} to group {group}: {error}", path.display()))
}

/// A member of the group may put something else at this path: a link would give away a file of root's.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(without_link)?;
    let found = file.metadata()?;
    refuse_foreign(&file).map_err(io::Error::other)?;
    if found.is_file() && found.nlink() == 1 {
        Ok(file)
    } else {
        Err(io::Error::other("somebody replaced it"))
    }
}

/// Changes what was opened. A change of the group may clear bits of the mode, so that comes last.
fn hand_over(file: &File, group: u32, mode: u32) -> io::Result<()> {
    fchown(file, None, Some(group))?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Something in the folder of the file that does not belong to it.
fn other_file(path: &Path) -> Option<PathBuf> {
    let own = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let entries = fs::read_dir(folder_of(path)).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|entry| {
        let name = entry.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let rest = name.strip_prefix(own);
        !rest.is_some_and(|rest| rest.is_empty() || rest == b"-journal" || rest.starts_with(b"-waiter-"))
    })
}
