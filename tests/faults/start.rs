//! Between the grant and the start of the command.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Fault, Finished, HeldUp, Proxy, Redlock, Running, Store, await_death, await_file, await_freeze, children,
    command_below, eventually, freeze, held_up_executions, interrupt, is_alive, namespaces, other_users,
    slowed, throughout, ttl, within,
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
    assert_eq!(command_below(guard), None);
    // Redlock wakes it, too.
    let _ = kill(Pid::from_raw(guard), Signal::SIGCONT);
    let late = run.finish();
    assert_eq!(late.stdout, "");
    late
}

#[test]
fn too_late_to_start() {
    let late = too_late(&[]).expect(69);
    assert!(late.line().contains("the lease of 'X' had ended before 'echo' could start"), "{late:?}");
}

/// That the job would go on without the lock is no reason to start it without.
#[test]
fn too_late_to_start_a_job_that_goes_on_without_the_lock() {
    too_late(&["--on-lost", "continue"]).expect(69);
}

/// What was taken by hand is renewed while the rest is waited for.
fn lasts_through_the_wait(store: &Store) {
    let other = store.hold("B", &[]);
    let ttl = ttl(1500);
    let script = format!(
        r#"eval "$("$0" acquire -k A --ttl {ttl} --format env)"
        "$0" run -k A -k B --ttl {ttl} --wait -q -- "$0" run -k A -- echo ran && "$0" release"#
    );
    let run = store.reached_by(Redlock::under("sh", &["-c", &script, PROGRAM])).spawn();
    store.await_waiters("B", 1);
    throughout(slowed(4000), || assert!(store.status("A")["holders"][0].is_object()));
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
    let ttl = ttl(1500);
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

/// What the system lacks is no bug of redlock's.
#[test]
fn without_descriptors() {
    let store = Store::local();
    // A test that runs beside this one may be opening a file at the moment, which is inherited then.
    let script = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 4; exec \"$0\" run -k X -- echo ran";
    let run = store.reached_by(Redlock::under("sh", &["-c", script, PROGRAM])).run().expect(69);
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

/// A command whose execution waits, as on a file server that does not answer.
struct Hanging {
    store: Store,
    command: String,
    started: PathBuf,
    held_up: HeldUp,
}

impl Hanging {
    fn new(store: Store) -> Hanging {
        let [command, started] = ["command", "started"].map(|name| store.folder.path(name));
        fs::write(&command, format!("#!/bin/sh\ntouch {started:?}\n")).expect("a script");
        fs::set_permissions(&command, Permissions::from_mode(0o755)).expect("chmod");
        let held_up = HeldUp::at(&command);
        Hanging { store, command: command.display().to_string(), started, held_up }
    }

    fn run(&self, options: &[&str]) -> Running {
        self.store.redlock(&[&["run", "-k", "X"], options, &["--", &self.command]].concat()).spawn()
    }
}

/// Nothing starts any more when redlock is gone, or the lease: the guard watches both while the command is executed.
#[test]
fn an_execution_that_hangs_when_redlock_is_killed() {
    if !held_up_executions() {
        return;
    }
    let hanging = Hanging::new(Store::local());
    let run = hanging.run(&[]);
    let (child, held) = hanging.held_up.next();
    let guard = run.guard();
    run.signal(Signal::SIGKILL);
    eventually(Duration::from_secs(10), "the end of the guard", || !is_alive(guard));
    held.let_go();
    assert!(!is_alive(child) && !hanging.started.exists());
    hanging.store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// It is not started any more, long before the lease is over.
#[test]
fn an_execution_that_hangs_ends_with_a_signal() {
    if !held_up_executions() {
        return;
    }
    let hanging = Hanging::new(Store::local());
    let run = hanging.run(&["--ttl", "10m"]);
    let (child, held) = hanging.held_up.next();
    for signal in [Signal::SIGUSR1, Signal::SIGTERM] {
        run.signal(signal);
    }
    run.finish().expect(-15);
    assert!(!is_alive(child) && !hanging.started.exists());
    held.let_go();
    hanging.store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// The kernel reaps from the first moment on: a command that forks at once leaves no zombies.
#[test]
fn an_execution_that_hangs_finds_the_guard_ready() {
    if !held_up_executions() {
        return;
    }
    let hanging = Hanging::new(Store::local());
    let run = hanging.run(&[]);
    let (_, held) = hanging.held_up.next();
    let status = fs::read_to_string(format!("/proc/{}/status", run.guard())).expect("its status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("what it ignores");
    let ignored = u64::from_str_radix(ignored, 16).expect("a mask");
    assert_ne!(ignored & 1 << (libc::SIGCHLD - 1), 0, "{ignored:x}");
    held.let_go();
    run.finish().expect(0);
}

/// Nobody says so before the lease is over; it was killed, and may have done something.
#[test]
fn a_command_that_has_begun_is_no_command_that_never_started() {
    if !held_up_executions() {
        return;
    }
    let hanging = Hanging::new(Store::local());
    let run = hanging.run(&["--ttl", &ttl(3000)]);
    let (_, held) = hanging.held_up.next();
    let parent = children(run.guard())[0];
    interrupt(parent);
    held.let_go();
    await_freeze(parent);
    await_file(&hanging.started);
    await_death(parent);
    let late = run.finish().expect(79);
    assert!(late.line().contains("had ended when"), "{late:?}");
}

#[test]
fn an_execution_that_hangs_longer_than_the_lease() {
    if !held_up_executions() {
        return;
    }
    for options in [&["--on-lost", "terminate"], &["--on-lost", "continue"]] {
        for store in [Store::redis(), Store::local()] {
            let hanging = Hanging::new(store);
            let run = hanging.run(&[&["--ttl", &ttl(1500)], &options[..]].concat());
            let (child, held) = hanging.held_up.next();
            let late = run.finish().expect(69);
            assert!(
                late.line().contains("had ended before") && late.line().contains("could start"),
                "{late:?}"
            );
            assert!(!is_alive(child));
            held.let_go();
            assert!(!hanging.started.exists());
        }
    }
}

#[test]
fn an_execution_that_hangs_while_redlock_is_stopped() {
    if !held_up_executions() {
        return;
    }
    let hanging = Hanging::new(Store::redis());
    let run = hanging.run(&["--ttl", &ttl(1500)]);
    let (child, held) = hanging.held_up.next();
    run.signal(Signal::SIGSTOP);
    let next = hanging.store.redlock(&["run", "-k", "X", "--wait", "-q", "--", "sleep", "0.1"]).spawn();
    hanging.store.await_waiters("X", 1);
    next.finish().expect(0);
    assert!(!is_alive(child));
    held.let_go();
    run.signal(Signal::SIGCONT);
    run.finish().expect(69);
    assert!(!hanging.started.exists());
}

/// Nobody says that the command has started; it outlives the guard, as a set-user-ID program does (PR_SET_PDEATHSIG).
#[test]
fn a_guard_that_is_killed_at_the_start_of_the_command() {
    if !held_up_executions() || !other_users() {
        return;
    }
    let store = Store::local();
    let command = store.folder.path("command");
    fs::copy("/bin/sleep", &command).expect("a copy");
    chown(&command, Some(65534), Some(65534)).expect("chown");
    fs::set_permissions(&command, Permissions::from_mode(0o6755)).expect("chmod");
    let held_up = HeldUp::at(&command);
    let mut run = store.redlock(&["run", "-k", "X", "--", &command.display().to_string(), "60"]);
    // No pipe of which the test would see the end with that of the command.
    let stderr = store.folder.path("stderr");
    run.command.stdout(Stdio::null()).stderr(File::create(&stderr).expect("a file"));
    let run = run.spawn();
    let (child, held) = held_up.next();
    let guard = Pid::from_raw(run.guard());
    kill(guard, Signal::SIGSTOP).expect("a signal to the guard");
    held.let_go();
    let comm = format!("/proc/{child}/comm");
    eventually(Duration::from_secs(10), "the command has started", || {
        fs::read_to_string(&comm).is_ok_and(|comm| comm.trim_end() == "command")
    });
    kill(guard, Signal::SIGKILL).expect("a signal to the guard");
    // As any command whose guard is killed: 69 would say that it never ran.
    run.finish().expect(-9);
    assert!(!is_alive(child));
    assert!(fs::read_to_string(&stderr).expect("its words").contains("the guard of 'X' was killed"));
}

/// The command's process is there before the lock is. One that is stopped meanwhile starts all the same; with one that is killed
/// nothing starts.
#[test]
fn a_process_made_ahead_that_is_killed_or_stopped() {
    let store = Store::local();
    for (signal, code, output) in [(Signal::SIGKILL, 69, ""), (Signal::SIGSTOP, 0, "ran\n")] {
        for is_parent in [true, false] {
            let holder = store.hold("X", &[]);
            let waiter = store.redlock(&["run", "-k", "X", "--wait", "-q", "--", "echo", "ran"]).spawn();
            store.await_waiters("X", 1);
            let (guard, mut parent) = (waiter.guard(), 0);
            eventually(Duration::from_secs(20), "both processes", || {
                parent = children(guard).first().copied().unwrap_or(0);
                !children(parent).is_empty()
            });
            let pid = if is_parent { parent } else { children(parent)[0] };
            kill(Pid::from_raw(pid), signal).expect("a signal");
            if signal == Signal::SIGKILL {
                eventually(Duration::from_secs(20), "its death", || !is_alive(pid));
            }
            holder.let_go().expect(0);
            let ended = waiter.finish();
            assert_eq!((ended.code(), &*ended.stdout), (code, output), "{signal} {is_parent}: {ended:?}");
            assert_eq!(ended.stderr.contains("somebody killed its process"), code == 69, "{ended:?}");
        }
    }
}

/// The limit on processes is reached: for the guard, and for the command. Both are reported like other failures, with
/// an end for whoever counts runs.
#[test]
fn no_room_for_another_process() {
    let store = Store::local();
    let log = store.folder.path("log");
    let run = ["run", "-k", "X", "--log-file", log.to_str().expect("a path")];
    let ends = |finished: &Finished| {
        assert!(finished.line().contains("Resource temporarily unavailable"), "{finished:?}");
        let events = fs::read_to_string(&log).expect("the log");
        events.lines().filter(|line| line.contains(r#""event":"ended""#)).count()
    };
    let fails = ["-qq", "-o/dev/null", "-eclone", "-einject=clone:error=EAGAIN"];
    let trace = [&fails[..], &[PROGRAM], &run, &["--", "true"]].concat();
    let no_guard = Redlock::under("strace", &trace).server(&store.url).run().expect(69);
    assert_eq!(ends(&no_guard), 1);

    // There is room for redlock and its guard.
    if !other_users() {
        return;
    }
    let store = Store::redis();
    let limited = ["--reuid", "40001", "--clear-groups", "prlimit", "--nproc=2", PROGRAM];
    let run = ["run", "-k", "X", "--log-format", "json", "--", "true"];
    let no_command =
        Redlock::under("setpriv", &[&limited[..], &run].concat()).server(&store.url).run().expect(69);
    assert!(no_command.stderr.contains("Resource temporarily unavailable"), "{no_command:?}");
    assert_eq!(no_command.stderr.matches(r#""event":"ended""#).count(), 1, "{no_command:?}");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}
