//! The user as whom redlock runs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use nix::unistd::{geteuid, gethostname};

use crate::job::capture;

/// Of the passwd entry: the same under cron, sudo and a login shell, where `$USER` and `$HOME` differ.
pub struct User {
    pub name: String,
    pub home: PathBuf,
}

/// A directory of users may be on another machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// The effective user, looked up once; `None` for one without a passwd entry.
pub static USER: LazyLock<Result<Option<User>, String>> = LazyLock::new(|| {
    let uid = geteuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    match find(&passwd, uid) {
        Some(account) => Ok(Some(account)),
        None => ask_directory(uid).map(|passwd| find(&passwd, uid)),
    }
});

/// The home directory of the effective user, or why it is not known whether there is one.
pub fn home() -> Result<Option<&'static Path>, &'static String> {
    Ok(USER.as_ref()?.as_ref().map(|user| user.home.as_path()))
}

/// Who runs redlock, and where: what others are shown.
pub struct UserAtHost {
    pub user: String,
    pub host: String,
}

impl UserAtHost {
    /// Of this process.
    pub fn own() -> UserAtHost {
        let user = USER.as_ref().ok().and_then(Option::as_ref);
        UserAtHost {
            user: user.map_or_else(|| geteuid().to_string(), |user| user.name.clone()),
            host: gethostname().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// The passwd entry of a user of LDAP or the like. Not by getpwuid(3): in a static program it loads the modules
/// of another glibc, and crashes.
fn ask_directory(uid: u32) -> Result<String, String> {
    match capture(Command::new("getent").arg("passwd").arg(uid.to_string()), PATIENCE) {
        // Then no program asks a directory here.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        answer => answer.map_err(|error| format!("cannot look up user {uid} with getent: {error}")),
    }
}

fn find(passwd: &str, uid: u32) -> Option<User> {
    let uid = uid.to_string();
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = users.find(|fields| fields.len() == 7 && fields[2] == uid)?;
    Some(User { name: entry[0].to_owned(), home: PathBuf::from(entry[5]) })
}

#[test]
fn the_entry_is_that_of_the_number() {
    let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n";
    let found = |uid| find(passwd, uid).map(|account| (account.name, account.home));
    assert_eq!(found(1000), Some(("ada".to_owned(), PathBuf::from("/home/ada"))));
    assert_eq!(found(100), None);
}
