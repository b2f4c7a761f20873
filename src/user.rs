//! The user as whom redlock runs.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use nix::unistd::{geteuid, gethostname};

use crate::job::capture;

/// The user of the passwd entry: the same under cron, sudo and a login shell, where `$USER` and `$HOME` differ.
pub struct User {
    pub name: String,
    /// `None` for one that would be another folder for each call.
    pub home: Option<PathBuf>,
}

const PASSWD: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A directory of users may be on another machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// The effective user, looked up once; `None` for one without a passwd entry.
pub static USER: LazyLock<Result<Option<User>, String>> = LazyLock::new(|| {
    let uid = geteuid().as_raw();
    let passwd = match fs::read(PASSWD) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(format!("cannot read {PASSWD}: {error}"));
        }
        read => read.unwrap_or_default(),
    };
    match find(&passwd, uid) {
        Some(account) => Ok(Some(account)),
        None => ask_directory("passwd", &uid.to_string()).map(|passwd| find(passwd.as_bytes(), uid)),
    }
});

/// The home directory of the effective user, or why it is not known whether there is one.
pub fn home() -> Result<Option<&'static Path>, &'static String> {
    Ok(USER.as_ref()?.as_ref().and_then(|user| user.home.as_deref()))
}

/// The user and the host that run redlock, as shown to others.
pub struct UserAtHost {
    pub user: String,
    pub host: String,
}

impl UserAtHost {
    /// The user and the host of this process.
    pub fn own() -> UserAtHost {
        let user = USER.as_ref().ok().and_then(Option::as_ref);
        UserAtHost {
            user: user.map_or_else(|| geteuid().to_string(), |user| user.name.clone()),
            host: gethostname().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// The number of a group, by its name or as it is.
pub fn group_id(group: &str) -> Result<u32, String> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let named = |groups: &str| {
        let mut entries = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
        entries.find(|fields| fields.len() == 4 && fields[0] == group)?[2].parse().ok()
    };
    let read = fs::read(GROUPS).unwrap_or_default();
    match named(&String::from_utf8_lossy(&read)) {
        Some(id) => Ok(id),
        None => {
            let entry = ask_directory("group", group)?;
            named(&entry).ok_or_else(|| "the group does not exist; see groups(1)".to_owned())
        }
    }
}

/// The entry of a user or a group of LDAP or the like. Not by getpwuid(3): in a static program it loads the modules
/// of another glibc, and crashes.
fn ask_directory(database: &str, name: &str) -> Result<String, String> {
    match capture(Command::new("getent").args([database, name]), PATIENCE) {
        // Then no program asks a directory here.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        answer => answer.map_err(|error| {
            let what = if database == "group" { "group" } else { "user" };
            format!("cannot look up {what} {name} with getent: {error}")
        }),
    }
}

/// Others may have names in any encoding.
fn find(passwd: &[u8], uid: u32) -> Option<User> {
    let uid = uid.to_string();
    let mut users =
        passwd.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>());
    let entry = users.find(|fields| fields.len() == 7 && fields[2] == uid.as_bytes())?;
    let home = Path::new(OsStr::from_bytes(entry[5]));
    Some(User {
        name: String::from_utf8_lossy(entry[0]).into_owned(),
        home: home.is_absolute().then(|| home.to_owned()),
    })
}

#[test]
fn the_entry_is_that_of_the_number() {
    let passwd = b"root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n";
    let found = |uid| find(passwd, uid).map(|account| (account.name, account.home));
    assert_eq!(found(1000), Some(("ada".to_owned(), Some(PathBuf::from("/home/ada")))));
    assert_eq!(found(100), None);
    let passwd =
        b"\xff:x:1:1::/:/bin/sh\nada:x:1000:1000:\xff:/home/\xff:/bin/sh\nbot:x:7:7:::\nrel:x:8:8::home:\n";
    let home = |uid| find(passwd, uid).and_then(|account| account.home);
    assert_eq!(home(1000), Some(PathBuf::from(OsStr::from_bytes(b"/home/\xff"))));
    // In every folder it would be another one.
    assert_eq!((home(7), home(8)), (None, None));
}
