//! Users of one host who do not trust one another, and the file of the local store.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::files::{share, sql};
use crate::harness::{Finished, Folder, Redlock, Store, eventually, other_users, ttl};

/// Another user, and its group.
const NOBODY: u32 = 65534;

fn set_mode(store: &Store, name: &str, mode: u32) {
    fs::set_permissions(store.folder.path(name), Permissions::from_mode(mode)).expect("its mode");
}

/// The program, of another user.
fn as_nobody(store: &Store, args: &[&str]) -> Redlock {
    let mut redlock = store.redlock(args);
    redlock.command.uid(NOBODY).gid(NOBODY);
    redlock
}

/// Starts nothing, and says why.
#[track_caller]
fn refuses(store: &Store, why: &str) -> Finished {
    let run = store.redlock(&["run", "-k", "X", "--", "echo", "started"]).run().expect(78);
    assert!(run.line().contains(why) && run.stdout.is_empty(), "{why}: {run:?}");
    run
}

/// The FIFOs by which waiters are woken.
fn bells(store: &Store) -> Vec<PathBuf> {
    let files = fs::read_dir(store.folder.path("")).expect("the folder").flatten();
    files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_fifo())).map(|file| file.path()).collect()
}

/// Nor can anybody who reads it all the same, from a backup, release a lock with what it says.
#[test]
fn nobody_else_can_open_the_file() {
    let store = Store::local();
    let tell = ["--", "sh", "-c", "echo $REDLOCK_TOKEN; umask"];
    let mut run = store.redlock(&[&["run", "-k", "X", "--min-hold", "1h"][..], &tell].concat());
    // SAFETY: the closure makes one system call.
    unsafe {
        run.command.pre_exec(|| {
            nix::sys::stat::umask(Mode::empty());
            Ok(())
        })
    };
    let mut told = run.run().expect(0).stdout;
    told += &store.redlock(&["acquire", "-k", "Y", "--shared"]).run().expect(0).stdout;
    told += &store.redlock(&["acquire", "-k", "Z"]).run().expect(0).stdout;
    let tokens: Vec<&str> = told.lines().filter(|line| line.len() == 36).collect();
    assert_eq!(tokens.len(), 3, "{told}");
    for name in ["locks.db", "locks.db-journal"] {
        let path = store.folder.path(name);
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600, "{name}");
        let bytes = fs::read(&path).expect("its bytes");
        for token in &tokens {
            assert!(!bytes.windows(36).any(|part| part == token.as_bytes()), "a token in {name}");
        }
    }
    set_mode(&store, "locks.db", 0o644);
    refuses(&store, "others may open the file");
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !other_users() {
        return;
    }
    let store = Store::local();
    set_mode(&store, "", 0o1777);
    as_nobody(&store, &["run", "-k", "X", "--", "true"]).run().expect(0);
    refuses(&store, "belongs to user 65534");
    for name in ["locks.db", "locks.db-journal"] {
        let _ = fs::remove_file(store.folder.path(name));
    }
    fs::write(store.folder.path("locks.db-journal"), "").expect("a journal");
    chown(store.folder.path("locks.db-journal"), Some(NOBODY), None).expect("its owner");
    refuses(&store, "user 65534 has made");
}

#[test]
fn a_folder_in_which_others_replace_files_is_refused() {
    if !other_users() {
        return;
    }
    let store = Store::local();
    set_mode(&store, "", 0o777);
    refuses(&store, "chmod o-w");
    assert!(!store.folder.path("locks.db").exists());
    set_mode(&store, "", 0o1777);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    as_nobody(&store, &["run", "-k", "X", "--", "true"]).run().expect(69);
    set_mode(&store, "", 0o755);
    chown(store.folder.path(""), Some(NOBODY), None).expect("its owner");
    refuses(&store, "its folder belongs to user 65534");
    // The sticky bit does not bind the owner of the folder.
    set_mode(&store, "", 0o1755);
    refuses(&store, "its folder belongs to user 65534");
}

/// Whoever owns a folder above it can put another in the place of the folder.
#[test]
fn a_parent_folder_of_another_user() {
    if !other_users() {
        return;
    }
    let folder = Folder::new();
    let inner = folder.path("theirs/ours");
    fs::create_dir_all(&inner).expect("folders");
    chown(folder.path("theirs"), Some(NOBODY), None).expect("its owner");
    let url = format!("local:{}/locks.db", inner.display());
    let refused = Redlock::new(&["run", "-S", &url, "-k", "X", "--", "echo", "started"]).run().expect(78);
    assert!(refused.line().contains("user 65534, who owns ") && refused.stdout.is_empty(), "{refused:?}");
    // A configuration may name hooks, which are commands.
    let (config, store) = (inner.join("config.toml"), Store::local());
    fs::write(&config, format!("server = {:?}\n", store.url)).expect("a configuration");
    let configured = ["--config", config.to_str().expect("a path"), "run", "X", "--", "echo", "started"];
    let refused = Redlock::new(&configured).run().expect(78);
    assert!(refused.line().contains("user 65534, who owns ") && refused.stdout.is_empty(), "{refused:?}");
    chown(folder.path("theirs"), Some(0), None).expect("its owner");
    Redlock::new(&["run", "-S", &url, "-k", "X", "--", "true"]).run().expect(0);
    Redlock::new(&configured).run().expect(0);
}

/// A group may write to the folder and cannot read the file: a journal that one of its members puts there would be played
/// back, and the lock be free.
#[test]
fn a_forged_journal() {
    if !other_users() {
        return;
    }
    let store = Store::local();
    chown(store.folder.path(""), None, Some(NOBODY)).expect("its group");
    set_mode(&store, "", 0o2775);
    let holder = store.hold("X", &[]);
    let journal = store.folder.path("locks.db-journal");
    let forge = format!("rm -f {journal:?}; echo forged > {journal:?}");
    let forged = Command::new("sh").args(["-c", &forge]).uid(NOBODY).gid(NOBODY).status();
    assert!(forged.expect("sh starts").success());
    refuses(&store, "user 65534 has made ");
    fs::remove_file(&journal).expect("the journal");
    mkfifo(&journal, Mode::S_IRWXU).expect("a FIFO");
    refuses(&store, "is not a regular file");
    fs::remove_file(&journal).expect("the FIFO");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    holder.let_go().expect(0);
}

#[test]
fn a_link_is_not_followed() {
    let store = Store::local();
    let (file, target) = (store.folder.path("locks.db"), store.folder.path("target"));
    symlink(&target, &file).expect("a link");
    refuses(&store, "symbolic link");
    assert!(!target.exists());
    fs::write(&target, "").expect("a file");
    refuses(&store, "symbolic link");
    fs::remove_file(&file).expect("no link");
    fs::hard_link(&target, &file).expect("a link");
    set_mode(&store, "target", 0o600);
    refuses(&store, "hard link");
    fs::remove_file(&file).expect("no link");
    mkfifo(&file, Mode::S_IRWXU).expect("a FIFO");
    refuses(&store, "not a regular file");
}

/// A file that its owner, user 1, gave to group 65534, in a folder of that group.
#[test]
fn a_group_shares_a_file() {
    if !other_users() {
        return;
    }
    let store = Store::local();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    share(&store);
    for name in ["locks.db", "locks.db-journal", ""] {
        chown(store.folder.path(name), Some(1), None).expect("its owner");
    }
    set_mode(&store, "", 0o2770);
    let one = |args: &[&str]| {
        let mut redlock = as_nobody(&store, args);
        redlock.command.uid(1);
        redlock
    };
    let await_line = |line: &str| {
        let seen = || as_nobody(&store, &["status"]).run().stdout;
        eventually(Duration::from_secs(20), line, || seen().lines().any(|seen| seen.contains(line)));
    };
    let theirs =
        as_nobody(&store, &["run", "-k", "X", "--label", "theirs", "--", "cat"]).open_stdin().spawn();
    await_line("theirs");
    let ours = one(&["run", "-k", "X", "-w", "--label", "ours", "--", "cat"]).open_stdin().spawn();
    await_line("ours");
    theirs.let_go().expect(0);
    await_line("ours");
    as_nobody(&store, &["run", "-k", "X", "--", "true"]).run().expect(75);
    ours.let_go().expect(0);
    for doctor in [one(&["doctor"]), as_nobody(&store, &["doctor"])] {
        let ok = doctor.run().expect(0);
        assert!(ok.stdout.contains("group 65534 shares it"), "{ok:?}");
    }
    // Not in that group.
    refuses(&store, "belongs to user 1");
    set_mode(&store, "locks.db-journal", 0o600);
    let bad = one(&["doctor"]).run().expect(1);
    assert!(bad.stdout.contains("chmod 660"), "{bad:?}");
}

/// Nobody else wakes a waiter, and nothing of it is left behind.
#[test]
fn nobody_else_rings() {
    if !other_users() {
        return;
    }
    let store = Store::local();
    set_mode(&store, "", 0o755);
    let holder = store.hold("X", &[]);
    let waiter = store.wait_in_line("X", "waiter", &[]);
    store.await_waiters("X", 1);
    let [bell] = &bells(&store)[..] else { panic!("one bell") };
    let mut ring = Command::new("sh");
    ring.args(["-c", "echo > \"$0\""]).arg(bell).uid(NOBODY).gid(NOBODY).stderr(Stdio::null());
    assert!(!ring.status().expect("sh").success());
    let sockets = fs::read_to_string("/proc/net/unix").expect("the sockets");
    let pid = waiter.pid().to_string();
    let inodes = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").flatten();
    for inode in inodes.filter_map(|fd| fs::read_link(fd.path()).ok()) {
        let inode = inode.display().to_string();
        let inode = inode.trim_start_matches("socket:[").trim_end_matches(']');
        let named = |line: &&str| line.split_whitespace().nth(6) == Some(inode) && line.contains('@');
        assert_eq!(sockets.lines().find(named), None, "anyone can send to it");
    }
    holder.let_go().expect(0);
    waiter.finish().expect(0);
    assert_eq!(bells(&store), [] as [PathBuf; 0]);
}

/// Half a million waiters that are dead keep SQLite busy for long.
fn fill(store: &Store) {
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    sql(
        store,
        "INSERT INTO waiter (owner, key, mode, asked, fifo, processes, metadata)
         WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 500000)
         SELECT x'00000000000000000000000000000000', 'X', 'exclusive', 0, '', '', '' FROM many",
    );
}

#[test]
fn a_signal_counts_whatever_is_in_the_file() {
    let store = Store::local();
    fill(&store);
    let run = store.redlock(&["run", "-k", "X", "--connect-timeout", "50s", "--", "true"]).spawn();
    let journal = store.folder.path("locks.db-journal");
    // It writes what it finds to be dead.
    eventually(Duration::from_secs(40), "it is busy", || {
        fs::metadata(&journal).is_ok_and(|journal| journal.len() > 1 << 20)
    });
    let start = Instant::now();
    run.signal(Signal::SIGTERM);
    run.finish().expect(-15);
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
}

#[test]
fn a_deadline_counts_whatever_is_in_the_file() {
    let store = Store::local();
    fill(&store);
    let run = store.redlock(&["run", "-k", "X", "--connect-timeout", "200ms", "--", "echo", "started"]).run();
    let run = run.expect(69);
    assert!(run.line().contains("takes too long") && run.stdout.is_empty(), "{run:?}");
}

/// Whatever the store writes down for itself, a word of it is no owner token.
#[test]
fn a_mark_is_no_owner() {
    let store = Store::local();
    store.redlock(&["run", "-k", "kept", "--min-hold", "1h", "--", "true"]).run().expect(0);
    let reader = store.hold("read", &["--shared"]);
    store
        .redlock(&["run", "-k", "read by nobody", "--shared", "--min-hold", "1h", "--", "true"])
        .run()
        .expect(0);
    let fence = sql(&store, "SELECT fence FROM holder WHERE key = 'read by nobody'");
    for key in ["kept", "read", "read by nobody"] {
        for token in ["several", "released", &format!("released {fence}"), "NULL"] {
            for command in ["check", "renew", "release"] {
                let run = store.redlock(&[command, "-k", key, "--token", token]).run();
                assert_eq!(run.code(), 1, "{command} {key} {token}: {run:?}");
            }
            store.redlock(&["break", "--yes", "-k", key, "--token", token]).run().expect(1);
        }
        store.redlock(&["run", "-k", key, "--", "true"]).run().expect(75);
    }
    reader.let_go().expect(0);
}

/// A new file took the place of the one in which the lock was held, and another took it there: at its next look the
/// first one sees that it is lost.
#[test]
fn a_newcomer_on_a_new_file() {
    let store = Store::local();
    let first = store.redlock(&["run", "-k", "X", "--ttl", "6s", "--", "sleep", "50"]).spawn();
    store.await_holder("X");
    fs::rename(store.folder.path("locks.db"), store.folder.path("moved")).expect("a move");
    let second = store.hold("X", &["--ttl", "50s"]);
    let first = first.finish().expect(79);
    assert!(first.stderr.contains("lost"), "{first:?}");
    second.let_go().expect(0);
}

/// An older copy took the place of what the file said: the holder takes its lock again at its next look.
#[test]
fn restored_from_a_backup() {
    let store = Store::local();
    let file = store.folder.path("locks.db");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let backup = fs::read(&file).expect("a copy");
    let first = store.hold("X", &["--ttl", &ttl(6000)]);
    fs::write(&file, backup).expect("the copy");
    assert!(!store.status("X")["holders"][0].is_object());
    eventually(Duration::from_secs(5), "the lock is back", || store.status("X")["holders"][0].is_object());
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    first.let_go().expect(0);
}

/// SQLite's code, and that of ring, notices when its stack is overwritten.
#[test]
fn the_stack_is_guarded() {
    for function in ["sqlite3_str_vappendf", "ring_core_0_17_14__p256_point_mul"] {
        let mut objdump = Command::new("objdump");
        objdump.arg(format!("--disassemble={function}")).arg(env!("CARGO_BIN_EXE_redlock"));
        let code = objdump.output().expect("objdump");
        let code = String::from_utf8_lossy(&code.stdout).into_owned();
        assert!(code.contains("__stack_chk_fail"), "{function}: {code:.2000}");
    }
}
