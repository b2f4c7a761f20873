//! One host, several users: a fleet's settings, and a file that they share.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;

use crate::harness::{Finished, Folder, Redis, Redlock, Store, other_users};

const NOBODY: u32 = 65534;

fn as_nobody(mut redlock: Redlock) -> Finished {
    redlock.command.uid(NOBODY).gid(NOBODY);
    redlock.run()
}

/// The configuration of a fleet and its password, which root gives to `group` with this mode.
fn fleet(redis: &Redis, group: u32, mode: u32) -> (Folder, String) {
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o755)).expect("its mode");
    let (password, config) = (folder.path("password"), folder.path("config.toml"));
    fs::write(&password, "canary\n").expect("a password");
    chown(&password, None, Some(group)).expect("its group");
    fs::set_permissions(&password, Permissions::from_mode(mode)).expect("its mode");
    let settings = format!("server = {:?}\npassword-file = {password:?}\nttl = \"20s\"\n", redis.url());
    fs::write(&config, settings).expect("a configuration");
    (folder, config.display().to_string())
}

#[test]
fn a_password_that_not_everybody_may_read() {
    if !other_users() {
        return;
    }
    let redis = Redis::with(&["--requirepass", "canary"]);
    let (folder, config) = fleet(&redis, 0, 0o600);
    let redlock = |args: &[&str]| Redlock::new(args).env("REDLOCK_CONFIG", &config);
    let refused = as_nobody(redlock(&["run", "X", "--", "echo", "started"])).expect(78);
    let line = refused.line();
    assert!(line.contains(&format!("password file {}", folder.path("password").display())), "{line}");
    assert!(line.contains("chgrp GROUP") && refused.stdout.is_empty(), "{line}");
    // It is none of the business of a store without a login.
    let own = Folder::new();
    chown(own.path(""), Some(NOBODY), Some(NOBODY)).expect("its owner");
    let local = format!("local:{}", own.path("locks.db").display());
    let ran = as_nobody(redlock(&["run", "-S", &local, "X", "--", "echo", "ran"])).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("ran\n", ""));
    // Whoever asks what is in force is shown it, and the mistake.
    let shown = as_nobody(redlock(&["config"])).expect(78);
    assert!(shown.stdout.contains("ttl = \"20s\"") && shown.stdout.contains("password-file = "), "{shown:?}");
    assert!(shown.line().contains("password file "), "{shown:?}");
}

/// Root and the members of the group log in with it.
#[test]
fn a_password_for_a_group() {
    if !other_users() {
        return;
    }
    let redis = Redis::with(&["--requirepass", "canary"]);
    let (_folder, config) = fleet(&redis, NOBODY, 0o640);
    let run = || Redlock::new(&["run", "X", "--", "echo", "ran"]).env("REDLOCK_CONFIG", &config);
    assert_eq!(run().run().expect(0).stdout, "ran\n");
    assert_eq!(as_nobody(run()).expect(0).stdout, "ran\n");
    let (_folder, config) = fleet(&redis, NOBODY, 0o660);
    let run = Redlock::new(&["run", "X", "--", "echo", "ran"]).env("REDLOCK_CONFIG", &config);
    assert!(run.run().expect(78).line().contains("others can read or change it"));
}

/// Cron mails whatever is printed.
#[test]
fn logs_of_the_fleet_that_a_user_cannot_write() {
    let store = Store::local();
    let logs = ["--log-file=/nonexistent/log", "--metrics-file=/nonexistent/redlock.prom"];
    let run = |more: &[&str]| {
        store.redlock(&[&["run"], &logs[..], more, &["X", "--", "echo", "ran"]].concat()).run().expect(0)
    };
    let told = run(&[]);
    assert!(logs.iter().all(|log| told.line().contains(&log.replace('=', " "))), "{told:?}");
    let quiet = run(&["-q"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("ran\n", ""));
}

#[test]
fn one_command_shares_a_file() {
    if !other_users() {
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o755)).expect("its mode");
    let url = format!("local:{}", folder.path("locks/locks.db").display());
    let share = |url: &str, group: &str| Redlock::new(&["doctor", "-S", url, "--share", group]).run();
    // Twice is as once.
    for _ in 0..2 {
        let shared = share(&url, "65534").expect(0);
        assert!(shared.stdout.contains("group 65534 shares it"), "{shared:?}");
    }
    for (name, mode) in [("", 0o2770), ("locks.db", 0o660), ("locks.db-journal", 0o660)] {
        let found = fs::metadata(folder.path("locks").join(name)).expect("it is there");
        assert_eq!((found.mode() & 0o7777, found.gid()), (mode, NOBODY), "{name}");
    }
    let ran = as_nobody(Redlock::new(&["run", "-S", &url, "X", "--", "echo", "ran"])).expect(0);
    assert_eq!(ran.stdout, "ran\n");
    // A folder with other files is not given away.
    fs::write(folder.path("other"), "").expect("a file");
    let before = fs::metadata(folder.path("")).expect("the folder");
    let beside = format!("local:{}", folder.path("locks.db").display());
    assert!(share(&beside, "65534").expect(78).line().contains("name a new folder"));
    let after = fs::metadata(folder.path("")).expect("the folder");
    assert_eq!((before.mode(), before.gid()), (after.mode(), after.gid()));
    assert!(share(&url, "no-such-group").expect(78).line().contains("the group does not exist"));
    assert!(share("redis://127.0.0.1:1", "65534").expect(78).line().contains("--share is for local:"));
}

/// As of nobody and many a service.
#[test]
fn a_user_whose_home_is_not_there() {
    if !other_users() {
        return;
    }
    let refused = as_nobody(Redlock::new(&["run", "-S", "local:", "X", "--", "echo", "started"])).expect(69);
    assert!(refused.line().ends_with("name a file: local:PATH") && refused.stdout.is_empty(), "{refused:?}");
}

/// Nobody is told to change a file that is none of redlock's.
#[test]
fn a_file_of_the_system() {
    let before = fs::metadata("/etc/passwd").expect("the file").mode();
    for subcommand in [&["status"][..], &["run", "X", "--", "true"], &["doctor"]] {
        let refused = Redlock::new(subcommand).server("local:/etc/passwd").run();
        let text = refused.stdout.clone() + &refused.stderr;
        assert!(text.contains("holds something else; name another one"), "{refused:?}");
        assert!(!text.contains("chmod") && !text.contains("move"), "{refused:?}");
    }
    assert_eq!(fs::metadata("/etc/passwd").expect("the file").mode(), before);
    let store = Store::local();
    store.redlock(&["run", "X", "--", "true"]).run().expect(0);
    fs::set_permissions(store.folder.path("locks.db"), Permissions::from_mode(0o644)).expect("its mode");
    assert!(store.redlock(&["status"]).run().expect(78).line().contains("chmod o= "));
}
