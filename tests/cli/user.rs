//! Who the user is, where the password file does not say it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::harness::{Finished, Folder, Redlock, Store, other_users};

/// Of nobody in the password file.
const UID: u32 = 54321;

/// With a directory of users that is asked by this script.
fn run_as(folder: &Folder, directory: &str, prefix: &[&str]) -> Finished {
    let getent = folder.path("getent");
    fs::write(&getent, format!("#!/bin/sh\n{directory}\n")).expect("a script");
    let everybodys = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&getent, everybodys).expect("its mode");
    let path = format!("{}:{}", folder.path("").display(), std::env::var("PATH").expect("a path"));
    let run = [prefix, &[env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--", "echo", "ran"]].concat();
    let mut run = Redlock::under("env", &run).env("PATH", path);
    run.command.uid(UID).gid(UID);
    run.run()
}

/// A user of a directory whose configuration file names the server.
fn configured(store: &Store) -> (Folder, String) {
    let home = Folder::new();
    fs::create_dir_all(home.path(".config/redlock")).expect("a folder");
    let settings = format!("server = \"{}\"", store.url);
    fs::write(home.path(".config/redlock/config.toml"), settings).expect("a file");
    let entry = format!("echo ada:x:{UID}:{UID}:Ada:{}:/bin/sh", home.path("").display());
    (home, entry)
}

/// Whatever the caller does with the end of its children.
#[test]
fn a_user_of_a_directory_has_a_configuration() {
    if !other_users() {
        return;
    }
    let store = Store::redis();
    let (home, entry) = configured(&store);
    for prefix in [&[][..], &["--ignore-signal=CHLD"]] {
        let run = run_as(&home, &entry, prefix).expect(0);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ran\n", ""), "{prefix:?}");
    }
}

/// It may have a configuration that names another server, where the lock is held.
#[test]
fn a_directory_that_does_not_answer() {
    if !other_users() {
        return;
    }
    let folder = Folder::new();
    for directory in ["exec sleep 1000", "exec yes"] {
        let run = run_as(&folder, directory, &[]).expect(78);
        assert!(run.line().contains("getent") && run.line().contains("--config"), "{run:?}");
    }
}
