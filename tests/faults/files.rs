//! The file of the local store is full, damaged, forbidden, or gone.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;

use crate::harness::{
    Finished, Folder, Redlock, Running, Store, eventually, in_ms, namespaces, other_users, slowed, ttl,
    within,
};

fn run_on(path: &std::path::Path) -> Finished {
    let url = format!("local:{}", path.display());
    Redlock::new(&["run", "-k", "X", "-S", &url, "--connect-timeout", "1s", "--", "echo", "started"]).run()
}

#[test]
fn damaged() {
    let folder = Folder::new();
    fs::write(folder.path("file"), "this is no database, and longer than a header has to be: ".repeat(20))
        .expect("a file");
    fs::set_permissions(folder.path("file"), fs::Permissions::from_mode(0o600)).expect("its mode");
    let run = run_on(&folder.path("file")).expect(78);
    assert!(run.line().contains("damaged or holds something else") && run.stdout.is_empty(), "{run:?}");
}

#[test]
fn a_directory() {
    let folder = Folder::new();
    let run = run_on(&folder.path("")).expect(78);
    assert!(run.line().contains("directory"), "{run:?}");
}

#[test]
fn a_full_disk() {
    // /dev/full takes no byte; the store's folder is a file system of its own that is full.
    let run = run_on(std::path::Path::new("/dev/full"));
    assert!([69, 78].contains(&run.code()) && run.stdout.is_empty(), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
}

#[test]
fn a_folder_that_cannot_be_made() {
    let run = run_on(std::path::Path::new("/proc/nowhere/locks.db")).expect(69);
    assert!(run.line().contains("local:/proc/nowhere/locks.db"), "{run:?}");
}

/// A file that another user's program may not write.
#[test]
fn forbidden() {
    if !other_users() {
        return;
    }
    let folder = Folder::new();
    let path = folder.path("locks.db");
    run_on(&path).expect(0);
    chown(&path, None, Some(65534)).expect("its group");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).expect("its mode");
    let url = format!("local:{}", path.display());
    let mut run = Redlock::new(&["run", "-k", "X", "-S", &url, "--", "echo", "started"]);
    use std::os::unix::process::CommandExt;
    run.command.uid(65534).gid(65534);
    let run = run.run().expect(69);
    assert!(run.line().contains("it cannot be written") && run.stdout.is_empty(), "{run:?}");
}

/// Killed at any moment, the file is as it should be.
#[test]
fn killed_while_writing() {
    let store = Store::local();
    for round in 0..100 {
        let run = store.redlock(&["run", "-k", "X", "--wait", "--", "true"]).spawn();
        let pause = Duration::from_micros(round * 50);
        let end = Instant::now() + pause;
        // Not a wait for anything: the moment of the kill is what varies.
        while Instant::now() < end {}
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(run.pid()), Signal::SIGKILL);
        run.finish();
    }
    store.redlock(&["run", "-k", "X", "--wait", "5m", "--", "true"]).run().expect(0);
}

/// The first of all was killed while it made the tables: SQLite undoes that when the next one comes.
#[test]
fn killed_while_making_the_tables() {
    let store = Store::local();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    // The header of a rollback journal of a file that was empty. See "The Rollback Journal" in the file format
    // of SQLite: magic, no records, a nonce, no pages before, sectors of 512, pages of 4096 bytes.
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    for number in [0, 1, 0, 512, 4096_u32] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    fs::write(store.folder.path("locks.db-journal"), journal).expect("a journal");
    store.redlock(&["run", "-k", "X", "--", "echo", "ran"]).run().expect(0);
}

/// Lets group 65534 share the file, as redlock(1) says.
pub fn share(store: &Store) {
    for (name, mode) in [("", 0o2770), ("locks.db", 0o660), ("locks.db-journal", 0o660)] {
        let path = store.folder.path(name);
        chown(&path, None, Some(65534)).expect("its group");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    }
}

/// A program that another user runs, for whom /proc hides the processes of others.
fn behind_hidepid(store: &Store, program: &[&str]) -> Redlock {
    share(store);
    let script = "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\"";
    Redlock::under("unshare", &[&["-m", "sh", "-c", script, "sh"], program].concat()).server(&store.url)
}

/// Takes the lock, which is held.
const TAKE: [&str; 9] =
    [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--connect-timeout", "20s", "--", "echo", "ran"];

/// A holder that cannot be seen is not a dead one.
#[test]
fn a_holder_that_proc_hides() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let seen = behind_hidepid(&store, &TAKE).run().expect(75);
    assert!(seen.line().contains("held by") && seen.stdout.is_empty(), "{seen:?}");
    holder.let_go().expect(0);
}

/// Nor is one at which the look is interrupted by a signal.
#[test]
fn a_signal_while_a_hidden_holder_is_looked_at() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let interrupted = ["strace", "-qqo/dev/null", "-epoll", "-einject=poll:error=EINTR:when=1..20"];
    let seen = behind_hidepid(&store, &[&interrupted[..], &TAKE].concat()).run().expect(75);
    assert!(seen.line().contains("held by") && seen.stdout.is_empty(), "{seen:?}");
    holder.let_go().expect(0);
}

/// The file looks older than the boot, as after a step of the wall clock.
fn make_old(store: &Store) {
    let file = fs::File::options().append(true).open(store.folder.path("locks.db")).expect("the file");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("its time");
}

/// A file that looks older than the boot is examined. Another writes to it just then: no reason to move it away.
#[test]
fn busy_while_it_is_examined() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    make_old(&store);
    let trace = store.folder.path("trace").display().to_string();
    let take = |options: [&str; 3]| {
        Redlock::under("strace", &[&["-qq"], &options[..], &TAKE].concat()).server(&store.url).run()
    };
    take(["-o", &trace, "-efcntl"]).expect(75);
    // Two of them for each look: the first look finds that the file is ours.
    let calls = fs::read_to_string(&trace).expect("a trace");
    let readers = calls.lines().enumerate().filter(|(_, call)| call.contains("F_RDLCK"));
    let second_look = readers.map(|(index, _)| index + 1).nth(2).expect("a second look");
    let last = second_look + 100;
    make_old(&store);
    let busy = format!("-einject=fcntl:error=EAGAIN:when={second_look}..{last}");
    let seen = take(["-o/dev/null", "-efcntl", &busy]).expect(75);
    assert!(seen.line().contains("held by") && seen.stdout.is_empty(), "{seen:?}");
    assert!(!store.folder.path("locks.damaged").exists());
    holder.let_go().expect(0);
}

/// Who waits for one lock has another renewed meanwhile, by a thread with a connection of its own. Closing any
/// descriptor of the file drops the locks of the process on it (fcntl(2)): never in the middle of a transaction.
#[test]
fn two_connections_of_one_process() {
    let store = Store::local();
    let by_hand = store.redlock(&["acquire", "-k", "A", "--ttl", "5m"]).run().expect(0).stdout;
    let trace = store.folder.path("trace");
    // So slow a disk that the first renewal is due in the middle of a transaction.
    let slow = ["-f", "-efcntl,openat,pwrite64", "-einject=pwrite64:delay_enter=700000"];
    let args = ["run", "-k", "A", "-k", "B", "--ttl", "12s", "--kill-after", "500ms", "-w30s", "--", "true"];
    let program = [&["-qq", "-o", trace.to_str().expect("a path")], &slow[..], &[TAKE[0]], &args].concat();
    let run = Redlock::under("strace", &program).server(&store.url);
    run.env("REDLOCK_KEY", "A").env("REDLOCK_TOKEN", by_hand.trim()).run();
    let trace = fs::read_to_string(&trace).expect("a trace");
    let (mut locking, mut opened) = (BTreeSet::new(), 0);
    for call in trace.lines() {
        let thread = call.split_whitespace().next().expect("who calls");
        if call.contains("l_type=F_UNLCK") && call.contains("l_start=0, l_len=0") {
            locking.remove(thread);
        } else if call.contains("F_SETLK") {
            locking.insert(thread);
        } else if call.contains("locks.db\", O_") {
            opened += 1;
            // SQLite knows of the connections of its process, and closes none too early.
            assert!(call.contains("O_RDWR|O_NOFOLLOW"), "{locking:?}: {call}");
        }
    }
    assert_eq!(opened, 2, "{trace}");
}

/// The end of the last boot left a torn file: a new one takes its place, and what is left of it is kept.
#[test]
fn torn() {
    let store = Store::local();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let file = fs::File::options().write(true).open(store.folder.path("locks.db")).expect("the file");
    // The second page; the first one says what the file is.
    file.write_all_at(&[0xff; 4096], 4096).expect("a tear");
    make_old(&store);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    assert!(store.folder.path("locks.damaged").exists());
}

/// Everybody may lock a folder that everybody may read.
#[test]
fn another_locks_the_folder() {
    let store = Store::local();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    make_old(&store);
    let folder = store.folder.path("");
    let mut other = Command::new("flock");
    other.arg(&folder).args(["sh", "-c", "echo locked; cat"]);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("flock");
    let mut line = String::new();
    BufReader::new(other.stdout.as_mut().expect("its stdout")).read_line(&mut line).expect("a line");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    drop(other.stdin.take());
    other.wait().expect("its end");
}

/// Another program that writes to the file, until it is killed.
struct Writer(Child);

impl Writer {
    fn start(store: &Store) -> Writer {
        let path = store.folder.path("locks.db").display().to_string();
        let script = format!(
            "import sqlite3, sys; db = sqlite3.connect('{path}', isolation_level=None);
db.execute('BEGIN IMMEDIATE'); print('writing', flush=True); sys.stdin.read()"
        );
        let mut python = Command::new("python3");
        python.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().expect("python3");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("its stdout");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "writing\n");
        Writer(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the program has opened the file.
fn await_opened(store: &Store, run: &Running) {
    let file = store.folder.path("locks.db");
    eventually(Duration::from_secs(20), "it opens the file", || {
        let open = fs::read_dir(format!("/proc/{}/fd", run.pid())).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|path| path == file)
    });
}

/// Ctrl-C counts also while another keeps the file busy.
#[test]
fn interrupted_while_another_writes() {
    let store = Store::local();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let _writer = Writer::start(&store);
    for options in [&[][..], &["--wait"]] {
        let args = [&["run", "-k", "X", "--connect-timeout", "30s"], options, &["--", "true"]].concat();
        let run = store.redlock(&args).spawn();
        await_opened(&store, &run);
        let start = Instant::now();
        run.signal(Signal::SIGTERM);
        run.finish().expect(-15);
        within(Duration::from_secs(5), start);
    }
}

/// Carries out a statement on the file, and returns the first value of what it answers.
pub fn sql(store: &Store, statement: &str) -> String {
    let path = store.folder.path("locks.db").display().to_string();
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=20)
rows = db.execute(sys.argv[2]).fetchall(); db.commit(); print(rows[0][0] if rows else '')";
    let python = Command::new("python3").args(["-c", script, &path, statement]).output().expect("python3");
    assert!(python.status.success(), "{python:?}");
    String::from_utf8_lossy(&python.stdout).trim().to_owned()
}

/// What a job sees as its fencing token.
fn fence(store: &Store, options: &[&str]) -> u64 {
    let run = store.redlock(&[&["run"], options, &["--", "printenv", "REDLOCK_FENCE"]].concat());
    let run = run.run().expect(0);
    run.stdout.trim().parse().unwrap_or_else(|_| panic!("{run:?}"))
}

/// Keys that nobody has used for long are forgotten, but not their fencing tokens, nor what is held.
#[test]
fn keys_of_long_ago() {
    const MONTH: u64 = 30 * 24 * 60 * 60 * 1_000_000;
    let store = Store::local();
    let holder = store.hold("held", &["--ttl", "60s"]);
    let sharer = store.hold("held together", &["--ttl", "60s", "--shared"]);
    let old = [&["-k", "released"][..], &["-k", "shared", "--shared"]];
    let fences = old.map(|options| fence(&store, options));
    for options in [&["-k", "expired"][..], &["-k", "expired together", "--shared"]] {
        store.redlock(&[&["acquire", "--ttl", "1s"], options].concat()).run().expect(0);
    }
    sql(&store, &format!("UPDATE lock SET fence = fence - {MONTH}"));
    let left = "SELECT count(*) FROM lock WHERE key IN ('released', 'shared', 'expired', 'expired together')";
    assert_eq!(sql(&store, left), "4");
    eventually(Duration::from_secs(100), "they are forgotten", || {
        (0..10).for_each(|_| _ = fence(&store, &["-k", "used"]));
        sql(&store, left) == "0"
    });
    // As if they had been granted, and forgotten, while the wall clock was ahead.
    sql(&store, &format!("UPDATE lock SET fence = fence + {} WHERE key NOT LIKE 'held%'", 3 * MONTH));
    for (options, before) in old.into_iter().zip(fences) {
        let after = fence(&store, options);
        assert!(after > before + 2 * MONTH, "{options:?}: {after} after {before}");
    }
    for key in ["held", "held together"] {
        store.redlock(&["run", "-k", key, "--", "true"]).run().expect(75);
    }
    holder.let_go().expect(0);
    sharer.let_go().expect(0);
}

/// After a reboot nothing is held: the boot id in the file is another one.
#[test]
fn rebooted() {
    let store = Store::local();
    store.redlock(&["acquire", "-k", "X", "--ttl", "1h"]).run().expect(0);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    sql(&store, "UPDATE holder SET boot = '00000000-0000-0000-0000-000000000000'");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// What is not redlock's own is not carried out, nor is it looked at twice.
#[test]
fn tables_of_another() {
    let additions = [
        "CREATE TABLE more (x)",
        "CREATE VIEW waiters AS SELECT * FROM waiter",
        "CREATE INDEX by_key ON waiter (key)",
        "CREATE TRIGGER free AFTER INSERT ON lock BEGIN DELETE FROM holder; END",
        "ALTER TABLE lock ADD COLUMN more INTEGER",
        "DROP TABLE holder",
    ];
    for addition in additions {
        let store = Store::local();
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
        sql(&store, addition);
        let run = store.redlock(&["run", "-k", "X", "--", "echo", "started"]).run().expect(78);
        assert!(run.line().contains("its tables are not those of redlock"), "{addition}: {run:?}");
        assert_eq!(run.stdout, "", "{addition}");
    }
}

/// The file is removed while a job runs: its next renewal makes a new one with the lock in it.
#[test]
fn removed() {
    let store = Store::local();
    let path = store.url.trim_start_matches("local:").to_owned();
    let first = store
        .redlock(&["run", "-k", "X", "--ttl", &ttl(1500), "--", "sleep", &slowed(4000).as_secs().to_string()])
        .spawn();
    store.await_holder("X");
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{path}{suffix}"));
    }
    eventually(Duration::from_secs(2), "the lock is back", || store.status("X")["holders"][0].is_object());
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    first.finish().expect(0);
}

/// An older copy takes the place of the file while a job runs: without its key, from before its grant, or with a holder
/// that has died since. The job takes its lock again.
#[test]
fn an_older_copy() {
    for (key, had_holder) in [("Y", false), ("X", false), ("X", true)] {
        let store = Store::local();
        let path = store.url.trim_start_matches("local:").to_owned();
        let older = format!("{path}.old");
        let copy = || fs::copy(&path, &older).expect("a copy");
        let earlier = store.hold(key, &[]);
        if had_holder {
            copy();
        }
        earlier.let_go().expect(0);
        if !had_holder {
            copy();
        }
        let job = store.hold("X", &["--ttl", &ttl(1500)]);
        fs::rename(&older, &path).expect("the older file");
        eventually(slowed(2000), "the lock is back", || {
            store.status("X")["holders"][0]["pid"].as_i64() == Some(job.pid().into())
        });
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
        let ended = job.let_go().expect(0);
        assert!(ended.stderr.contains("it is held again"), "{ended:?}");
    }
}

/// A file system that stands still under the log, as one on a server that does not answer, costs lines of the log only.
#[test]
fn a_log_that_hangs_costs_no_lease() {
    let store = Store::local();
    let log = store.folder.path("log").display().to_string();
    let ttl = slowed(2000);
    let job = ttl * 2;
    // Each thread hangs when it opens the log for the third time, in its second line: longer than the job runs, which is
    // longer than a lease.
    let hang = format!("-einject=openat:delay_enter={}:when=3", (job + Duration::from_secs(6)).as_micros());
    let trace = ["-f", "-qq", "-o/dev/null", "-P", &log, "-eopenat", &hang];
    let job = format!("sleep {}; exit 5", job.as_secs_f64());
    let run = [TAKE[0], "run", "-k", "X", "--ttl", &in_ms(ttl), "--log-file", &log, "--", "sh", "-c", &job];
    let ended = Redlock::under("strace", &[&trace[..], &run].concat()).server(&store.url).run().expect(5);
    assert!(ended.stderr.contains("events are missing in --log-file"), "{ended:?}");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}
