//! Hooks: what they find, and that they hinder nothing.

mod ends;

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::harness::{Folder, Redlock, Store, await_file, eventually, is_alive, pid_in, slowed, ttl};

const LIMIT: Duration = Duration::from_secs(20);

fn run(store: &Store, options: &[&str], job: &str) -> Redlock {
    store.redlock(&[&["run", "-k", "X"], options, &["--", "sh", "-c", job]].concat())
}

fn is_free(store: &Store) -> bool {
    store.status("X")["holders"][0].is_null()
}

/// A hook that ignores these signals, writes its pid into a file, and does not end by itself.
fn endless(folder: &Folder, ignored: &str) -> (String, impl Fn() -> i32 + use<>) {
    attacking(folder, ignored, ":")
}

/// The same, which does something first.
fn attacking(folder: &Folder, ignored: &str, attack: &str) -> (String, impl Fn() -> i32 + use<>) {
    let file = folder.path("hook");
    let hook =
        format!("trap '' {ignored}; echo $$ >{}; {attack}; while :; do sleep 0.05; done", file.display());
    (hook, move || pid_in(&file))
}

/// A hook that beats until it is told to end well, with the files by which it says that it runs and is told.
fn beating(folder: &Folder) -> (String, [PathBuf; 2], impl Fn() -> u64 + use<>) {
    let [ready, done, beats] = ["ready", "done", "beats"].map(|name| folder.path(name));
    let hook = format!(
        "touch {}; until [ -e {} ]; do echo >>{}; sleep 0.01; done; echo well",
        ready.display(),
        done.display(),
        beats.display()
    );
    (hook, [ready, done], move || fs::metadata(&beats).map_or(0, |file| file.len()))
}

/// This hook and this job, which does not end before the hook has run: behind it the hook has a second, and a busy machine
/// may need more.
fn awaited(folder: &Folder, hook: &str, job: &str) -> (String, String) {
    let ran = folder.path("hook-ran").display().to_string();
    let hook = format!("({hook}); end=$?; touch {ran}; exit $end");
    (hook, format!("until [ -e {ran} ]; do sleep 0.01; done; rm {ran}; {job}"))
}

/// Limits a process, see prlimit(1).
fn limit(pid: i32, resource: &str, most: u64) {
    let (pid, limit) = (format!("--pid={pid}"), format!("--{resource}={most}"));
    assert!(Command::new("prlimit").args([pid, limit]).status().expect("prlimit starts").success());
}

/// Leaves a process no room for the stack of one more thread.
fn forbid_threads(pid: i32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("its size");
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    limit(pid, "as", (kib + 512) << 10);
}

#[test]
fn they_find_what_happened() {
    let store = Store::local();
    let holder = store.hold("X", &["--label", "somebody"]);
    let seen = "$REDLOCK_HOOK key $REDLOCK_KEY token [$REDLOCK_TOKEN]";
    let waits = format!("echo {seen} by $REDLOCK_HOLDER");
    let acquires = format!("echo {seen} fence $REDLOCK_FENCE; read line; echo in [$line]");
    let releases = format!("echo {seen} fence $REDLOCK_FENCE status $REDLOCK_EXIT_STATUS");
    let options = ["--wait", "--on-wait", &waits, "--on-acquire", &acquires, "--on-release", &releases];
    let waiter = run(&store, &options, "echo $REDLOCK_FENCE; read line; exit 3").spawn();
    store.await_waiters("X", 1);
    holder.let_go().expect(0);
    let ended = waiter.finish().expect(3);
    let fence = ended.stdout.trim();
    for line in [
        format!("on-acquire key X token [] fence {fence}\n"),
        "in []\n".to_owned(),
        format!("on-release key X token [] fence {fence} status 3\n"),
    ] {
        assert!(ended.stderr.contains(&line), "{line}: {ended:?}");
    }
    let waiting = ended.stderr.lines().find(|line| line.starts_with("on-wait key X token [] by "));
    assert!(waiting.is_some_and(|line| line.contains("somebody")), "{ended:?}");
    assert_eq!(ended.stderr.matches("on-wait key").count(), 1, "{ended:?}");
}

#[test]
fn a_signal_that_killed_the_command_is_a_status_as_in_a_shell() {
    let store = Store::local();
    let ended = run(&store, &["--on-release", "echo $REDLOCK_EXIT_STATUS"], "kill -9 $$").run().expect(-9);
    assert_eq!(ended.stderr, "137\n");
}

#[test]
fn a_loss_has_its_reason() {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(3000));
    let told = folder.path("told");
    let lost = format!("echo \"$REDLOCK_HOOK $REDLOCK_KEY $REDLOCK_REASON\" >{}", told.display());
    let options = ["--ttl", &time, "--on-lost-run", &lost, "--on-release", "echo released"];
    let job = run(&store, &options, "echo started; sleep 100").spawn();
    store.await_holder("X");
    store.redlock(&["break", "-k", "X", "--yes", "--reason", "a test"]).run().expect(0);
    let ended = job.finish().expect(79);
    let told = fs::read_to_string(told).expect("what the hook wrote");
    assert!(told.starts_with("on-lost-run X lost 'X': it was broken"), "{told}");
    assert!(told.contains("a test") && !ended.stderr.contains("released"), "{told} {ended:?}");
}

#[test]
fn a_failure_is_reported_and_changes_nothing() {
    let store = Store::local();
    let folder = Folder::new();
    let log = folder.path("log");
    let (hook, job) = awaited(&folder, "exit 3", "exit 5");
    let options = ["--on-acquire", &hook, "--on-release", "kill -9 $$", "--log-file"];
    let ended = run(&store, &[&options[..], &[log.to_str().expect("a path")]].concat(), &job).run().expect(5);
    for line in [
        "redlock: the on-acquire hook failed: it exited with 3\n",
        "redlock: the on-release hook failed: signal 9 killed it\n",
    ] {
        assert!(ended.stderr.contains(line), "{ended:?}");
    }
    let log = fs::read_to_string(log).expect("the log");
    assert!(log.contains(r#""event":"hook_failed""#) && log.contains(r#""hook":"on-acquire""#), "{log}");
    let quiet = run(&store, &["--quiet", "--on-acquire", &hook], &job).run().expect(5);
    assert_eq!(quiet.stderr, "");
}

/// The command and the lock do not wait for a hook, nor do the renewals.
#[test]
fn it_hinders_nothing() {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(1500));
    let (hook, pid) = endless(&folder, "TERM");
    let options = ["--ttl", &time, "--kill-after", "100ms", "--on-acquire", &hook];
    let mut job =
        run(&store, &options, &format!("touch {}; cat", folder.path("job").display())).open_stdin().spawn();
    await_file(&folder.path("job"));
    let (pid, start) = (pid(), Instant::now());
    job.lives_until("more than its TTL", || start.elapsed() > slowed(3000));
    assert!(is_alive(pid));
    let ended = job.let_go().expect(0);
    assert_eq!(ended.stderr, "redlock: the on-acquire hook failed: it still ran, and was stopped\n");
    assert!(!is_alive(pid) && is_free(&store));
}

#[test]
fn what_is_said_of_it_comes_before_the_end_of_the_run() {
    let store = Store::local();
    let folder = Folder::new();
    let (log, (hook, pid)) = (folder.path("log"), endless(&folder, "TERM"));
    let holder = store.hold("X", &[]);
    let options = ["--wait", "--on-wait", &hook, "--log-file", log.to_str().expect("a path")];
    let waiter = run(&store, &options, "true").spawn();
    pid();
    waiter.signal(Signal::SIGTERM);
    waiter.finish().expect(-15);
    let log = fs::read_to_string(log).expect("the log");
    let last: Vec<_> = log.lines().rev().take(2).collect();
    assert!(last[0].contains(r#""event":"ended""#) && last[1].contains(r#""event":"hook_failed""#), "{log}");
    holder.let_go().expect(0);
}

/// Why a run failed is said before redlock waits for a hook.
#[test]
fn a_failure_is_said_at_once() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, [ready, done], _) = beating(&folder);
    let said = folder.path("said");
    let holder = store.hold("X", &[]);
    let options = ["--ttl", "60s", "--wait", "--on-wait", &hook, "--", "no-such-command"];
    let mut waiter = store.redlock(&[&["run", "-k", "X"], &options[..]].concat());
    waiter.command.stderr(File::create(&said).expect("a file"));
    let waiter = waiter.spawn();
    await_file(&ready);
    holder.let_go().expect(0);
    let is_said =
        || fs::read_to_string(&said).is_ok_and(|said| said.contains("'no-such-command' is not found"));
    eventually(LIMIT, "the reason", is_said);
    fs::write(done, "").expect("a file");
    waiter.finish().expect(127);
}

/// A reader who stands still keeps no renewal waiting.
#[test]
fn a_hook_that_cannot_start_holds_nothing_up() {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(1500));
    let started = folder.path("started");
    let holder = store.hold("X", &[]);
    let (mut reader, writer) = pipe().expect("a pipe");
    let command = format!("touch {}; cat; exit 5", started.display());
    let mut job = run(&store, &["--wait", "--ttl", &time, "--on-acquire", "exit 3"], &command).open_stdin();
    job.command.stderr(writer.try_clone().expect("a second handle"));
    let mut job = job.spawn();
    let waits = reader.read(&mut [0; 4096]).expect("that it waits");
    assert!(waits > 0);
    forbid_threads(job.pid());
    fill(&writer);
    drop(writer);
    holder.let_go().expect(0);
    job.await_file(&started);
    let start = Instant::now();
    job.lives_until("more than its TTL", || start.elapsed() > slowed(3000));
    let all = read_all(reader);
    job.let_go().expect(5);
    let (all, failed) =
        (all.join().expect("what was said"), "hook failed: Resource temporarily unavailable\n");
    assert!(all.ends_with(failed), "{all}");
}

/// A pipe with no room left.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().expect("a pipe");
    fill(&writer);
    (reader, writer)
}

fn fill(mut writer: &PipeWriter) {
    fcntl(writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("flags");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl(writer, FcntlArg::F_SETFL(OFlag::empty())).expect("flags");
}

/// What comes until the end.
fn read_all(mut reader: PipeReader) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut all = String::new();
        reader.read_to_string(&mut all).expect("text");
        all
    })
}

/// A reader that stands still keeps nobody from the lock.
#[test]
fn a_failure_that_nobody_reads_frees_the_lock() {
    let store = Store::local();
    let folder = Folder::new();
    let (reader, writer) = full_pipe();
    let command = format!("touch {}; exit 5", folder.path("ran").display());
    let mut job = run(&store, &["--on-acquire", "exit 3"], &command);
    job.command.stderr(writer);
    let job = job.spawn();
    await_file(&folder.path("ran"));
    eventually(LIMIT, "the release", || is_free(&store));
    let all = read_all(reader);
    job.finish().expect(5);
    let all = all.join().expect("what was said");
    // A busy machine may not have let it run before its time was over.
    let said = all.trim_start_matches('x');
    assert!(said.starts_with("redlock: the on-acquire hook failed: it "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Hooks run before what people read.
#[test]
fn a_loss_that_nobody_reads_has_its_hook() {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(3000));
    let (reader, writer) = full_pipe();
    let lost = format!("touch {}", folder.path("lost").display());
    let mut job = run(&store, &["--ttl", &time, "--on-lost-run", &lost], "exec sleep 100 2>/dev/null");
    job.command.stderr(writer);
    let job = job.spawn();
    store.await_holder("X");
    store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
    await_file(&folder.path("lost"));
    let all = read_all(reader);
    job.finish().expect(79);
    assert!(all.join().expect("what was said").contains("lost 'X'"));
}

#[test]
fn it_has_streams_where_the_caller_has_none() {
    let store = Store::local();
    let hook = "read line || echo none";
    let redlock = env!("CARGO_BIN_EXE_redlock");
    let script = format!("{redlock} run -k X --on-release '{hook}' -- true <&- >&-");
    let caller = store.reached_by(Redlock::under("sh", &["-c", &script]));
    assert_eq!(caller.run().expect(0).stderr, "none\n");
}

#[test]
fn an_inherited_lock_has_no_hooks_and_a_hook_has_none() {
    let store = Store::local();
    let folder = Folder::new();
    let redlock = env!("CARGO_BIN_EXE_redlock");
    let (hook, inner) = awaited(&folder, "echo acquired >&2", &format!("{redlock} run -k X -- true"));
    let outer = run(&store, &[], &inner).env("REDLOCK_ON_ACQUIRE", hook);
    assert_eq!(outer.run().expect(0).stderr, "acquired\n");
    let again = format!("echo once; {redlock} run -k Y -- true");
    let hooked = run(&store, &[], "true").env("REDLOCK_ON_RELEASE", again);
    assert_eq!(hooked.run().expect(0).stderr, "once\n");
    let (hook, job) = awaited(&folder, "echo outer [$REDLOCK_OUTER]", "exit 0");
    let inner = format!("{redlock} run -k Y --on-acquire '{hook}' -- sh -c '{job}'");
    assert_eq!(run(&store, &[], &inner).run().expect(0).stderr, "outer []\n");
}

#[test]
fn a_file_names_them_and_an_empty_one_undoes_that() {
    let store = Store::local();
    let folder = Folder::new();
    let file = folder.path("redlock.toml");
    let (hook, job) = awaited(&folder, "echo from the file", "exit 0");
    fs::write(&file, format!("on-acquire = '{hook}'\n")).expect("a file");
    let config = ["--config", file.to_str().expect("a path")];
    assert_eq!(run(&store, &config, &job).run().expect(0).stderr, "from the file\n");
    let undone = [&config[..], &["--on-acquire", ""]].concat();
    assert_eq!(run(&store, &undone, "true").run().expect(0).stderr, "");
}

/// None of its processes stays, and no zombie.
#[test]
fn a_command_that_cannot_start_has_no_hooks() {
    let store = Store::local();
    let hooks = ["--on-acquire", "echo acquired", "--on-release", "echo released"];
    let args = [&["run", "-k", "X"], &hooks[..], &["--", "no-such-command"]].concat();
    let ended = store.redlock(&args).run().expect(127);
    assert!(!ended.stderr.contains("acquired\n") && !ended.stderr.contains("released\n"), "{ended:?}");
    assert!(is_free(&store));
}

/// A renewal finds the loss, as a hook still runs.
#[test]
fn a_loss_behind_the_end_of_the_job_stops_nothing() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, [ready, done], _) = beating(&folder);
    let job = format!(
        "until [ -e {} ]; do sleep 0.01; done; REDLOCK_OUTER= {} release",
        ready.display(),
        env!("CARGO_BIN_EXE_redlock")
    );
    for on_lost in ["terminate", "continue"] {
        let lost_run = format!("touch {}", done.display());
        let options = ["--on-acquire", &hook, "--on-lost", on_lost, "--on-lost-run", &lost_run];
        let ended = run(&store, &options, &job).run().expect(79);
        assert!(ended.stderr.contains("; the job ran on, and has ended\n"), "{ended:?}");
        fs::remove_file(&done).expect("the file");
    }
}

/// Somebody released the lock of a job that ran on.
#[test]
fn a_loss_that_the_release_finds_is_one() {
    let store = Store::local();
    // As a process outside the job does it, which has the owner token alone.
    let release = format!("REDLOCK_OUTER= {} release", env!("CARGO_BIN_EXE_redlock"));
    let options = ["--on-lost-run", "echo lost run", "--on-release", "echo released run"];
    let ended = run(&store, &options, &release).run().expect(79);
    assert!(ended.stderr.contains("; the job ran on, and has ended\n"), "{ended:?}");
    assert!(ended.stderr.contains("lost run\n") && !ended.stderr.contains("released run"), "{ended:?}");
}
