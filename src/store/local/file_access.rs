//! Checks who may use the file. Only its owner may read it, as the file lock of a reader stops everyone; only trusted
//! users may write or replace it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::sys::statfs::{NFS_SUPER_MAGIC, statfs};
use nix::unistd::geteuid;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::trusted_file::{Replacer, check_parents, folder_of, is_our_group, is_trusted, may_replace};
use crate::user;

/// Marks a database as ours: "rlck".
pub const APPLICATION: i32 = 0x726c_636b;

/// The first bytes of a database of SQLite.
const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Mode bit of a folder whose files get its group.
pub const SET_GROUP_ID: u32 = 0o2000;
/// Mode bits: the group may read and write.
pub const GROUP: u32 = 0o060;

/// Why the file was not used.
pub enum FileError {
    Io(io::Error),
    Sql(rusqlite::Error),
    /// The fault of the file, and the remedy.
    Unfit(String),
    /// The file was replaced since it was opened.
    Replaced,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        FileError::Io(error)
    }
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> FileError {
        FileError::Sql(error)
    }
}

/// Where the file is when nobody names it. root: /var/lib/redlock/locks.db; others: ~/.local/state/redlock/locks.db, with the home directory of
/// the passwd entry: cron and sudo change the environment, and that must not split a lock into two.
pub fn default_path() -> Result<PathBuf, String> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/redlock/locks.db"));
    }
    match user::home() {
        Ok(Some(home)) => Ok(home.join(".local/state/redlock/locks.db")),
        Ok(None) => Err("this user has no home directory; name a file: local:PATH".to_owned()),
        Err(why) => Err(format!("{why}; name a file: local:PATH")),
    }
}

/// The rollback journal of SQLite.
pub fn journal_of(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

/// Looks at the file, and makes an empty one where there is none.
pub fn find(path: &Path) -> Result<Metadata, FileError> {
    let folder = folder_of(path);
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            check_folder(folder, &fs::metadata(folder)?, None)?;
            create(path, 0o600)?;
            fs::symlink_metadata(path)?
        }
        other => other?,
    };
    let unfit = |why: &str| Err(FileError::Unfit(why.to_owned()));
    if found.is_symlink() {
        return unfit("it is a symbolic link; name the file itself");
    }
    if found.is_dir() {
        return unfit("it is a directory; name a file");
    }
    if !found.is_file() {
        return unfit("it is not a regular file; name another one");
    }
    if found.nlink() > 1 {
        return unfit("the file has a second name (a hard link); remove one of the two");
    }
    if found.mode() & 0o007 != 0 {
        if found.len() > 0 && !is_database(path) {
            return unfit("the file holds something else; name another one");
        }
        let path = path.display();
        return unfit(&format!("others may open the file, and could stop everyone: chmod o= {path}"));
    }
    let folder_metadata = fs::metadata(folder)?;
    if !is_trusted(found.uid()) && !is_shared_with_us(&found, &folder_metadata) {
        return unfit(&format!(
            "the file belongs to user {}; name one of your own, or share it with a group: see SHARING A FILE in redlock(1)",
            found.uid()
        ));
    }
    check_folder(folder, &folder_metadata, Some(&found))?;
    check_journal(path)?;
    if is_mounted(path) {
        return unfit("it is mounted as a single file, without its journal; mount its folder");
    }
    if statfs(folder).is_ok_and(|fs| fs.filesystem_type() == NFS_SUPER_MAGIC) {
        return unfit("it is on NFS, whose file locks do not suffice; name a file on a local disk");
    }
    Ok(found)
}

/// Looks whether the file may be redlock's, before somebody is advised to change it. To close it drops the locks of this
/// process on it, so only a file that is refused anyway is opened.
fn is_database(path: &Path) -> bool {
    let mut begin = [0; HEADER.len()];
    match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Ok(mut file) => file.read_exact(&mut begin).is_ok() && begin == *HEADER,
        Err(_) => true,
    }
}

/// Never somebody else's file, nor where a link leads. Nothing is opened: to close a descriptor of the file would drop
/// all locks that this process has on it (fcntl(2)).
pub fn create(path: &Path, mode: u32) -> io::Result<()> {
    match mknod(path, SFlag::S_IFREG, Mode::from_bits_truncate(mode), 0) {
        // Another was faster.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Its owner gave it to a group on purpose.
fn is_shared(file: &Metadata, folder: &Metadata) -> bool {
    let folder_is_shared = folder.mode() & SET_GROUP_ID != 0 && folder.gid() == file.gid();
    file.mode() & GROUP == GROUP && folder_is_shared
}

/// The same, and we are in that group.
fn is_shared_with_us(file: &Metadata, folder: &Metadata) -> bool {
    is_shared(file, folder) && is_our_group(folder.gid())
}

/// Whoever can write to the folder, or owns it, can replace the file.
fn check_folder(folder: &Path, found: &Metadata, file: Option<&Metadata>) -> Result<(), FileError> {
    match may_replace(found) {
        None => {}
        Some(Replacer::Owner(_)) if file.is_some_and(|file| is_shared_with_us(file, found)) => {}
        Some(Replacer::Owner(uid)) => {
            return Err(FileError::Unfit(format!(
                "its folder belongs to user {uid}, who may replace it; name a file in a folder of your own"
            )));
        }
        Some(Replacer::Everyone) => {
            let name = folder.display();
            let why = format!("everyone may write to its folder, and so replace it: chmod o-w {name}");
            return Err(FileError::Unfit(why));
        }
    }
    check_parents(folder).map_err(FileError::Unfit)
}

/// True if others may create files beside it, but not use it.
pub fn is_exposed(path: &Path, file: &Metadata) -> io::Result<bool> {
    let folder = fs::metadata(folder_of(path))?;
    Ok(folder.mode() & 0o022 != 0 && !is_shared(file, &folder))
}

/// SQLite trusts any journal that it finds: an exposed file has one of its owner's.
pub fn check_journal(path: &Path) -> Result<(), FileError> {
    let (file, journal) = (fs::symlink_metadata(path)?, journal_of(path));
    let is_exposed = is_exposed(path, &file)?;
    if is_exposed {
        create(&journal, file.mode() & 0o777)?;
    }
    let found = match fs::symlink_metadata(&journal) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let name = journal.display();
    if !found.is_file() {
        return Err(FileError::Unfit(format!("{name} is not a regular file; remove it")));
    }
    if !is_exposed || is_trusted(found.uid()) || found.uid() == file.uid() {
        return Ok(());
    }
    Err(FileError::Unfit(format!("user {} has made {name}; remove it", found.uid())))
}

/// A container got the file, and not what is beside it.
fn is_mounted(path: &Path) -> bool {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
