//! Events for programs: `--log-format json`, `--log-file`.

use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Folder, Redlock, Store, eventually, ttl};

fn events(lines: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines.lines().map(parse).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"].as_str()).collect()
}

/// The last event, which is the sum.
#[track_caller]
fn ended(events: &[Value]) -> &Value {
    let last = events.last().expect("an event");
    assert_eq!(last["event"], "ended", "{last}");
    last
}

#[test]
fn a_run_is_told_from_its_request_to_its_end() {
    let store = Store::redis();
    let args = ["run", "--log-format", "json", "-k", "X", "--label", "night \u{1b}[2J##[x]", "--", "false"];
    let ran = store.redlock(&args).run().expect(1);
    assert_eq!(ran.stdout, "");
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains("##["), "{ran:?}");
    let events = events(&ran.stderr);
    let expected =
        ["lock_acquire_attempt", "lock_acquired", "run_started", "command_ended", "lock_released", "ended"];
    assert_eq!(names(&events), expected);
    for event in &events {
        assert_eq!((&event["version"], &event["level"]), (&1.into(), &"info".into()), "{event}");
        for field in ["time", "host", "user", "pid"] {
            assert!(!event[field].is_null(), "{field} in {event}");
        }
        assert!(event["keys"] == serde_json::json!(["X"]) || event["event"] == "command_ended", "{event}");
    }
    let end = ended(&events);
    assert_eq!((&end["outcome"], &end["exit_status"]), (&"failure".into(), &1.into()));
    assert_eq!((&end["acquired"], &end["renewals"]), (&true.into(), &0.into()));
    assert_eq!(end["fences"][0], events[1]["fence"]);
    assert!(end["held_ms"].is_u64() && end["waited_ms"].is_u64(), "{end}");
}

#[test]
fn a_failure_to_acquire_names_the_holder() {
    let store = Store::redis();
    let holder = store.hold("X", &["--label", "the holder"]);
    for (wait, status, event, outcome) in
        [("--no-wait", 75, "lock_failed", "busy"), ("--wait=100ms", 75, "lock_failed", "gave_up")]
    {
        let busy = store.redlock(&["run", "--log-format=json", wait, "X", "--", "true"]).run().expect(status);
        let events = events(&busy.stderr);
        let failed = events.iter().find(|one| one["event"] == event).expect(event);
        assert_eq!((&failed["level"], &failed["holder"]["label"]), (&"warning".into(), &"the holder".into()));
        assert!(failed["message"].as_str().is_some_and(|message| message.contains("'X' is held by")));
        let end = ended(&events);
        assert_eq!((&end["outcome"], &end["acquired"]), (&outcome.into(), &false.into()));
        assert!(end["held_ms"].is_null());
    }
    holder.let_go().expect(0);
    let nowhere =
        store.redlock(&["run", "--log-format=json", "-S", "redis://127.0.0.1:1", "X", "--", "true"]);
    let events = events(&nowhere.run().expect(69).stderr);
    assert_eq!(names(&events), ["lock_acquire_attempt", "failed", "ended"]);
    assert_eq!(ended(&events)["outcome"], "unreachable");
}

#[test]
fn a_request_that_joins_no_line_or_leaves_it_says_why() {
    let store = Store::redis();
    let holder = store.hold("X", &[]);
    let wait = |options: &[&str]| {
        store.redlock(&[&["run", "--log-format=json", "--wait"], options, &["X", "--", "true"]].concat())
    };
    let first = wait(&["--supersede"]).spawn();
    store.await_waiters("X", 1);
    let full = events(&wait(&["--queue-limit", "1"]).run().expect(75).stderr);
    let failed = full.iter().find(|one| one["event"] == "lock_failed").expect("a failure");
    assert_eq!((&failed["queue_limit"], &ended(&full)["outcome"]), (&1.into(), &"busy".into()));
    let later = wait(&["--supersede", "--label", "the later one"]).spawn();
    let left = events(&first.finish().expect(75).stderr);
    let gave_way = left.iter().find(|one| one["event"] == "superseded").expect("a reason");
    let by = (&gave_way["pid_of_later"], &gave_way["label_of_later"]);
    assert_eq!(by, (&later.pid().into(), &"the later one".into()));
    assert_eq!(ended(&left)["outcome"], "superseded");
    holder.let_go().expect(0);
    later.finish().expect(0);
}

/// Every line is JSON, each failure is one event, and the lock is not lost for it.
#[test]
fn logs_that_cannot_be_written_are_events() {
    let store = Store::local();
    let logs = ["--log-file=/nonexistent/y", "--metrics-file=/nonexistent/x.prom"];
    let args = [&["run", "--log-format=json"], &logs[..], &["X", "--", "true"]].concat();
    let ran = store.redlock(&args).run().expect(0);
    let events = events(&ran.stderr);
    let failed: Vec<_> = events.iter().filter(|one| one["event"] == "log_failed").collect();
    assert_eq!(failed.len(), 2, "{events:?}");
    for (one, option) in failed.into_iter().zip(logs) {
        let (name, path) = option.split_once('=').expect("a value");
        let reason = one["error"].as_str().unwrap_or_default();
        assert!(reason.contains(name) && reason.contains(path) && one["message"] == reason, "{one}");
    }
    assert_eq!(ended(&events)["outcome"], "success");
}

/// A store that does not answer is waited for, too.
#[test]
fn a_wait_in_vain_is_in_the_sum() {
    let args = ["run", "--log-format=json", "-S", "redis://127.0.0.1:1", "--wait=1s", "X", "--", "true"];
    let end = Redlock::new(&args).run().expect(69).stderr;
    let events = events(&end);
    assert!(ended(&events)["waited_ms"].as_u64().is_some_and(|waited| waited >= 900), "{events:?}");
}

#[test]
fn a_loss_and_its_cause_are_in_the_sum() {
    let store = Store::redis();
    let folder = Folder::new();
    let log = folder.path("events.log");
    let log = log.to_str().expect("a path");
    let ttl = ttl(1500);
    let holder = store.hold("X", &["--ttl", &ttl, "--log-file", log, "-q"]);
    eventually(Duration::from_secs(20), "a renewal", || {
        fs::read_to_string(log).is_ok_and(|text| text.contains("\"lock_renewed\""))
    });
    store.redlock(&["break", "-y", "--reason", "stuck", "X"]).run().expect(0);
    let lost = holder.finish().expect(79);
    // For people as ever.
    assert!(lost.line().starts_with("redlock: lost 'X': it was broken"), "{lost:?}");
    let events = events(&fs::read_to_string(log).expect("the log"));
    let loss = events.iter().find(|one| one["event"] == "lock_lost").expect("the loss");
    assert_eq!((&loss["cause"], &loss["consequence"]), (&"broken".into(), &"job_stopped".into()));
    assert_eq!(loss["level"], "error");
    let end = ended(&events);
    assert_eq!((&end["outcome"], &end["exit_status"]), (&"lost".into(), &79.into()));
    assert!(end["renewals"].as_u64() >= Some(1) && end["held_ms"].is_u64(), "{end}");
}

#[test]
fn those_that_wait_are_heard_of_when_something_changes() {
    let store = Store::redis();
    let holder = store.hold("X", &[]);
    let waiter = store.redlock(&["run", "--log-format=json", "-k", "X", "-w", "--", "true"]).spawn();
    store.await_waiters("X", 1);
    holder.let_go().expect(0);
    let events = events(&waiter.finish().expect(0).stderr);
    let waiting: Vec<&Value> = events.iter().filter(|one| one["event"] == "lock_waiting").collect();
    assert!(!waiting.is_empty() && waiting.len() <= 3, "{waiting:?}");
    assert_eq!(waiting[0]["ahead"], 0);
    assert_eq!(ended(&events)["outcome"], "success");
}

#[test]
fn a_signal_while_waiting_is_an_end_too() {
    let store = Store::redis();
    let holder = store.hold("X", &[]);
    let waiter = store.redlock(&["run", "--log-format=json", "-k", "X", "-w", "--", "true"]).spawn();
    store.await_waiters("X", 1);
    waiter.signal(Signal::SIGTERM);
    let events = events(&waiter.finish().expect(-15).stderr);
    let end = ended(&events);
    assert_eq!((&end["outcome"], &end["signal"]), (&"interrupted".into(), &15.into()));
    holder.let_go().expect(0);
}

#[test]
fn a_keeper_writes_to_the_log_as_well() {
    let store = Store::local();
    let folder = Folder::new();
    let log = folder.path("events.log");
    let script =
        format!("eval \"$({} acquire X --while-pid $$ --format env)\"", env!("CARGO_BIN_EXE_redlock"));
    let mut bash = store.reached_by(crate::harness::Redlock::under("bash", &["-c", &script]));
    bash.command.env("REDLOCK_LOG_FILE", &log);
    bash.run().expect(0);
    let read = || events(&fs::read_to_string(&log).unwrap_or_default());
    eventually(Duration::from_secs(20), "the release", || names(&read()).contains(&"lock_released"));
    assert_eq!(names(&read()), ["lock_acquire_attempt", "lock_acquired", "ended", "lock_released"]);
}

/// One write for each line: none is torn, none is lost.
#[test]
fn many_writers_share_one_log() {
    let store = Store::local();
    let folder = Folder::new();
    let log = folder.path("events.log");
    let path = log.to_str().expect("a path");
    let run = |number: usize| {
        let key = format!("key-{number}");
        store.redlock(&["run", "--log-file", path, "-k", &key, "--", "true"]).spawn()
    };
    for batch in 0..5 {
        let running: Vec<_> = (0..10).map(|one| run(batch * 10 + one)).collect();
        running.into_iter().for_each(|one| drop(one.finish().expect(0)));
    }
    let events = events(&fs::read_to_string(log).expect("the log"));
    assert_eq!((events.len(), names(&events).iter().filter(|name| **name == "ended").count()), (300, 50));
}

/// A log that cannot be written never changes a job's result, and never holds it up.
#[test]
fn a_log_that_cannot_be_written() {
    let store = Store::local();
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let full = folder.path("full");
    symlink("/dev/full", &full).expect("a link");
    for log in [pipe, full, folder.path("none/x.log"), folder.path("")] {
        let log = log.to_str().expect("a path");
        let ran = store.redlock(&["run", "--log-file", log, "-k", "X", "--", "sh", "-c", "exit 3"]).run();
        let ran = ran.expect(3);
        let line = ran.line();
        assert!(
            line.starts_with("redlock: cannot write to --log-file ") && !line.contains("os error"),
            "{line}"
        );
    }
}

/// A disk was full in the middle of a line: the next one is whole.
#[test]
fn a_torn_line_does_not_take_the_next_one_with_it() {
    let store = Store::local();
    let folder = Folder::new();
    let log = folder.path("events.log");
    fs::write(&log, "{\"version\":1,\"ti").expect("a log");
    store.redlock(&["run", "--log-file", log.to_str().expect("a path"), "X", "--", "true"]).run().expect(0);
    let text = fs::read_to_string(log).expect("the log");
    let (_, whole) = text.split_once('\n').expect("a line");
    assert_eq!(names(&events(whole)).len(), 6);
}

/// Once the command runs, these lead elsewhere.
#[test]
fn a_stream_is_no_log_file() {
    let store = Store::local();
    for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/2", "/proc/self/fd/1"] {
        let refused = store.redlock(&["run", "--log-file", stream, "X", "--", "true"]).run().expect(64);
        assert!(refused.line().contains("--log-format json"), "{refused:?}");
    }
}

/// Nobody reads what redlock says: the lease goes on all the same.
#[test]
fn a_reader_that_stands_still_holds_up_no_renewal() {
    let (_reader, writer) = full_pipe(0);
    stands_still("--log-format=json", 0, writer);
}

#[test]
fn a_reader_of_messages_that_stands_still_holds_up_no_renewal() {
    let (_reader, writer) = full_pipe(0);
    stands_still("--verbose", 0, writer);
}

/// The pipe has room for a part of a line only.
#[test]
fn a_reader_that_takes_half_a_line_holds_up_no_renewal() {
    let (_reader, writer) = full_pipe(8192);
    stands_still("--log-format=json", 20, writer);
}

/// poll(2) says that there is room in it for one byte, too.
#[test]
fn a_terminal_that_nobody_reads_holds_up_no_renewal() {
    let terminal = openpty(None, None).expect("a terminal");
    let filler = std::fs::File::from(terminal.slave.try_clone().expect("a descriptor"));
    set_flags(&filler, OFlag::O_NONBLOCK);
    while (&filler).write(&[b'x'; 1000]).is_ok() {}
    set_flags(&filler, OFlag::empty());
    (&std::fs::File::from(terminal.master.try_clone().expect("a descriptor")))
        .read_exact(&mut [0; 300])
        .expect("some room");
    stands_still("--log-format=json", 20, terminal.slave);
}

/// The command is told to end before anybody reads of it.
#[test]
fn a_reader_that_stands_still_holds_up_no_timeout() {
    let (reader, writer) = full_pipe(0);
    let mut run = Store::local().redlock(&["run", "--timeout", "100ms", "-t", "10m", "X", "sleep", "600"]);
    run.command.stderr(writer);
    run.run().expect(124);
    drop(reader);
}

/// With so many keys more, an event is longer than the room that there may be.
fn stands_still(says: &str, others: usize, stderr: impl Into<Stdio>) {
    let store = Store::redis();
    let others: Vec<String> = (0..others).map(|number| format!("--key={number:0500}")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let run = ["run", says, "-t", &ttl(900), "-k", "X", "--", "sh", "-c", "read -r line || true"];
    let (before, command) = run.split_at(6);
    let mut holder = store.redlock(&[before, &others, command].concat()).open_stdin();
    holder.command.stderr(stderr);
    let holder = holder.spawn();
    store.await_holder("X");
    let renewed_at = || store.status("X")["holders"][0]["left_ms"].as_u64();
    let mut renewals = 0;
    let mut left = renewed_at();
    eventually(Duration::from_secs(30), "renewals over two leases", || {
        let now = renewed_at();
        assert!(now.is_some(), "the lock was lost");
        renewals += usize::from(now > left);
        left = now;
        renewals >= 6
    });
    holder.let_go().expect(0);
}

fn set_flags(of: impl AsFd, flags: OFlag) {
    fcntl(of, FcntlArg::F_SETFL(flags)).expect("a flag");
}

/// Full to the last byte, but for some room.
fn full_pipe(room: usize) -> (PipeReader, PipeWriter) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    set_flags(&writer, OFlag::O_NONBLOCK);
    while (&writer).write(&[b'x'; 4096]).is_ok() {}
    while (&writer).write(b"x").is_ok() {}
    set_flags(&writer, OFlag::empty());
    reader.read_exact(&mut vec![0; room]).expect("some room");
    (reader, writer)
}
