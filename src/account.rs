//! The user as whom redlock runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use nix::unistd::geteuid;

/// Of the passwd entry: the same under cron, sudo and a login shell, where `$USER` and `$HOME` differ.
pub struct Account {
    pub name: String,
    pub home: PathBuf,
}

/// The effective user, looked up once; `None` for one without a passwd entry.
pub static ACCOUNT: LazyLock<Option<Account>> = LazyLock::new(|| {
    let uid = geteuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    find(&passwd, uid).or_else(|| find(&ask_directory(uid), uid))
});

/// The passwd entry of a user of LDAP or the like. Not by getpwuid(3): in a static program it loads the modules
/// of another glibc, and crashes.
fn ask_directory(uid: u32) -> String {
    let mut getent = Command::new("getent");
    let output =
        getent.arg("passwd").arg(uid.to_string()).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn find(passwd: &str, uid: u32) -> Option<Account> {
    let uid = uid.to_string();
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = users.find(|fields| fields.len() == 7 && fields[2] == uid)?;
    Some(Account { name: entry[0].to_owned(), home: PathBuf::from(entry[5]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_that_of_the_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n";
        let found = |uid| find(passwd, uid).map(|account| (account.name, account.home));
        assert_eq!(found(1000), Some(("ada".to_owned(), PathBuf::from("/home/ada"))));
        assert_eq!(found(100), None);
    }
}
