//! Between the grant and the start of the command.

use std::fs::{self, File};
use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Fault, Finished, Proxy, Redlock, Running, Store, children, eventually, namespaces, slowed, ttl, within,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// Nothing starts when the guard gets the order only after the lease: it was stopped, as with the whole machine.
fn too_late(options: &[&str]) -> Finished {
    let store = Store::redis();
    let holder = store.hold("X", &[]);
    let run = [&["run", "-k", "X", "--ttl", "2s", "--wait", "-q"], options, &["--", "echo", "started"]];
    let run = store.redlock(&run.concat()).spawn();
    store.await_waiters("X", 1);
    let guard = run.guard();
    kill(Pid::from_raw(guard), Signal::SIGSTOP).expect("a signal to the guard");
    holder.let_go().expect(0);
    // Granted, and over, while redlock waits for its guard.
    store.hold("X", &["--wait"]).let_go().expect(0);
    assert!(children(guard).is_empty());
    // Redlock wakes it, too.
    let _ = kill(Pid::from_raw(guard), Signal::SIGCONT);
    let late = run.finish();
    assert_eq!(late.stdout, "");
    late
}

#[test]
fn too_late_to_start() {
    let late = too_late(&[]).expect(69);
    assert!(late.line().contains("the lease of 'X' was over before 'echo' could start"), "{late:?}");
}

/// That the job would go on without the lock is no reason to start it without.
#[test]
fn too_late_to_start_a_job_that_goes_on_without_the_lock() {
    too_late(&["--on-lost", "continue"]).expect(69);
}

/// What was taken by hand is renewed while the rest is waited for.
fn lasts_through_the_wait(store: &Store) {
    let other = store.hold("B", &[]);
    let ttl = ttl(1000);
    let script = format!(
        r#"eval "$("$0" acquire -k A --ttl {ttl} --format env)"
        "$0" run -k A -k B --ttl {ttl} --wait -q -- "$0" run -k A -- echo ran && "$0" release"#
    );
    let run = store.reached_by(Redlock::under("sh", &["-c", &script, PROGRAM])).spawn();
    store.await_waiters("B", 1);
    let end = Instant::now() + slowed(3000);
    while Instant::now() < end {
        assert!(store.status("A")["holders"][0].is_object());
    }
    other.let_go().expect(0);
    let run = run.finish().expect(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ran\n", ""));
}

#[test]
fn a_lease_taken_by_hand_lasts_through_the_wait() {
    lasts_through_the_wait(&Store::local());
    lasts_through_the_wait(&Store::redis());
}

/// Another one has it now: the wait has lost its sense, and nothing may start.
fn lost_in_the_wait(store: &Store, options: &[&str]) {
    let ttl = ttl(1000);
    let acquired = store.redlock(&["acquire", "-k", "A", "--ttl", &ttl]).run().expect(0);
    let token = acquired.stdout.trim();
    let other = store.hold("B", &[]);
    let run =
        [&["run", "-k", "A", "-k", "B", "--ttl", &ttl, "--wait", "-q"], options, &["--", "echo", "ran"]];
    let run = store.redlock(&run.concat()).env("REDLOCK_KEY", "A").env("REDLOCK_TOKEN", token).spawn();
    store.await_waiters("B", 1);
    store.redlock(&["release", "-k", "A", "--token", token]).run().expect(0);
    let next = store.hold("A", &[]);
    let lost = run.finish().expect(79);
    assert!(lost.line().contains("lost 'A'") && lost.stdout.is_empty(), "{lost:?}");
    assert_eq!(store.waiters("B"), 0);
    next.let_go().expect(0);
    other.let_go().expect(0);
}

#[test]
fn a_lease_taken_by_hand_is_lost_in_the_wait() {
    lost_in_the_wait(&Store::local(), &["--on-lost", "continue"]);
    lost_in_the_wait(&Store::redis(), &[]);
}

/// More locks around it than an environment takes: the job does not start, and nothing waits for it.
#[test]
fn an_environment_that_is_too_large() {
    let store = Store::local();
    let outer = r#"{"key":"Y","token":"00000000-0000-4000-8000-000000000000","fence":1,"guard":null}"#;
    let outer = format!("[{}]", vec![outer; 1400].join(","));
    let keys: Vec<String> = (10..74).map(|number| format!("{number}{}", "\"".repeat(510))).collect();
    let keys = keys.iter().flat_map(|key| ["-k", key]);
    let run: Vec<&str> = ["run"].into_iter().chain(keys).chain(["--", "echo", "ran"]).collect();
    let run = store.redlock(&run).env("REDLOCK_OUTER", outer).run().expect(126);
    assert!(run.stderr.contains("cannot be executed: Argument list too long"), "{run:?}");
    assert!(run.stdout.is_empty() && store.status("10")["holders"][0].is_null(), "{run:?}");
}

/// The guard could not find the processes that it has to kill.
#[test]
fn without_proc() {
    if !namespaces() {
        return;
    }
    let store = Store::redis();
    let script = "mount -t tmpfs none /proc && exec \"$@\"";
    let run = ["-m", "sh", "-c", script, "sh", PROGRAM, "run", "-k", "X", "--", "echo", "ran"];
    let run = store.reached_by(Redlock::under("unshare", &run)).run().expect(69);
    assert!(run.line().contains("/proc") && run.stdout.is_empty(), "{run:?}");
}

/// The renewals go on when the guard does not listen, and the orders to it are more than the line to it takes.
#[test]
fn a_guard_that_does_not_listen() {
    let renewed = |factor: u64| {
        let store = Store::redis();
        let stderr = store.folder.path("stderr");
        let mut run = store.redlock(&["run", "-v", "-k", "X", "--ttl", &ttl(600 * factor), "--", "cat"]);
        run.command.stderr(File::create(&stderr).expect("a file"));
        let mut run = run.open_stdin().spawn();
        let said = || fs::read_to_string(&stderr).unwrap_or_default();
        let renewals = || said().matches("renewed").count();
        let come = |count: usize, run: &mut Running| {
            eventually(Duration::from_secs(60), "a renewal", || {
                renewals() >= count || said().contains("lost") || run.has_ended()
            });
            renewals() >= count && !said().contains("lost")
        };
        if !come(1, &mut run) {
            return false;
        }
        freeze(run.guard());
        for _ in 0..400 {
            run.signal(Signal::SIGUSR1);
            eventually(Duration::from_secs(10), "the signal is taken", || {
                let status = fs::read_to_string(format!("/proc/{}/status", run.pid())).unwrap_or_default();
                status.contains("State:\tS") && status.contains("ShdPnd:\t0000000000000000")
            });
        }
        come(renewals() + 2, &mut run)
    };
    // On a busy machine a renewal may be late, or the grant.
    assert!([1, 2, 4].into_iter().any(renewed));
}

/// Stops a process until the end of this thread; SIGCONT does not wake it.
fn freeze(pid: i32) {
    for request in [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT] {
        // SAFETY: these requests read and write no memory.
        let done = unsafe { libc::ptrace(request, pid, 0, 0) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }
    eventually(Duration::from_secs(10), "it stops", || {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains("State:\tt"))
    });
}

/// What the system lacks is no bug of redlock's.
#[test]
fn without_descriptors() {
    let store = Store::local();
    let run = ["--nofile=4", PROGRAM, "run", "-k", "X", "--", "echo", "ran"];
    let run = store.reached_by(Redlock::under("prlimit", &run)).run().expect(69);
    assert!(run.line().contains("cannot start the guard of the job: Too many open files"), "{run:?}");
    assert!(run.stdout.is_empty(), "{run:?}");
}

/// A signal ends it, also while the store is asked about a lock around it.
#[test]
fn a_signal_while_a_lock_around_is_asked_about() {
    let store = Store::redis();
    let token = store.redlock(&["acquire", "-k", "A"]).run().expect(0).stdout;
    let proxy = Proxy::to(store.redis.as_ref().expect("Redis").port);
    proxy.set(Fault::Delay(Duration::from_secs(20)));
    let run = Redlock::new(&["run", "-k", "A", "--connect-timeout", "30s", "--", "echo", "started"]);
    let run = run.server(&proxy.url()).env("REDLOCK_KEY", "A").env("REDLOCK_TOKEN", token.trim()).spawn();
    eventually(Duration::from_secs(10), "it waits for the answer", || proxy.injected() > 0);
    run.signal(Signal::SIGTERM);
    let start = Instant::now();
    let ended = run.finish().expect(-15);
    within(Duration::from_secs(10), start);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

/// A PID namespace with the /proc of the one around it: the guard would look for its job among strangers.
#[test]
fn a_proc_of_another_namespace() {
    if !namespaces() {
        return;
    }
    for store in [Store::redis(), Store::local()] {
        // The pids of the two may be the same by chance.
        for fork in ["exec", "true;"] {
            let script = format!("{fork} \"$@\"");
            let run = ["-pf", "sh", "-c", &script, "sh", PROGRAM, "run", "-k", "X", "--", "echo", "ran"];
            let run = store.reached_by(Redlock::under("unshare", &run)).run().expect(69);
            assert!(run.line().contains("another PID namespace") && run.stdout.is_empty(), "{run:?}");
        }
    }
}

#[test]
fn a_guard_that_is_killed_in_the_wait() {
    for store in [Store::redis(), Store::local()] {
        let holder = store.hold("X", &[]);
        let waiter = store.redlock(&["run", "-k", "X", "--wait", "-q", "--", "echo", "ran"]).spawn();
        store.await_waiters("X", 1);
        kill(Pid::from_raw(waiter.guard()), Signal::SIGKILL).expect("a signal to the guard");
        let waiter = waiter.finish().expect(69);
        assert!(waiter.line().contains("the guard was killed") && waiter.stdout.is_empty(), "{waiter:?}");
        assert_eq!(store.waiters("X"), 0);
        holder.let_go().expect(0);
    }
}
