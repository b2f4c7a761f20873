//! Redlock or its guard is killed or stopped.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};

use crate::harness::{
    Redlock, Store, await_death, await_file, await_tracer, children, eventually, freeze, freezer, in_ms,
    is_alive, pause, pid_in, slowed, throughout, within,
};
use crate::takeover::Takeover;

fn redlock_killed(store: Store) {
    let mut scene = Takeover::new(store);
    scene.fault(|scene| scene.first.signal(Signal::SIGKILL));
    scene.await_death(Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), -9);
}

fn redlock_stopped(store: Store) {
    let mut scene = Takeover::new(store);
    scene.fault(|scene| scene.first.signal(Signal::SIGSTOP));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    // Its guard continues the first one, which finds its lock lost: inside a transaction it would block the store.
    eventually(Duration::from_secs(10), "the second job", || scene.witness.entries() == 2);
    assert_eq!(scene.second_is_alone().code(), 79);
}

fn guard_killed(store: Store) {
    let mut scene = Takeover::new(store);
    scene.fault(|scene| {
        kill(Pid::from_raw(scene.first.guard()), Signal::SIGKILL).expect("a signal to the guard")
    });
    scene.await_death(Duration::from_secs(1));
    let first = scene.second_is_alone();
    assert_eq!(first.code(), -9, "{first:?}");
    assert!(first.line().contains("the guard of 'X' was killed"), "{first:?}");
}

fn terminated(store: Store) {
    let mut scene = Takeover::new(store);
    scene.fault(|scene| {
        // Two that come at the same moment are one, so it is said again until it was heard twice.
        eventually(Duration::from_secs(5), "the death of the job", || {
            scene.first.signal(Signal::SIGTERM);
            !scene.job_is_alive()
        });
    });
    let first = scene.second_is_alone();
    assert_eq!(first.code(), -9, "{first:?}");
}

#[test]
fn redlock_killed_on_redis() {
    redlock_killed(Store::redis());
}

#[test]
fn redlock_killed_on_local() {
    redlock_killed(Store::local());
}

#[test]
fn redlock_stopped_on_redis() {
    redlock_stopped(Store::redis());
}

#[test]
fn redlock_stopped_on_local() {
    redlock_stopped(Store::local());
}

/// Its job ends by SIGTERM already.
#[test]
fn a_stopped_redlock_ends_with_its_job() {
    let store = Store::local();
    let holder = store.redlock(&["run", "-k", "X", "--ttl", "1s", "--", "sleep", "60"]).spawn();
    // A lock that is held has no job yet.
    holder.command();
    holder.signal(Signal::SIGSTOP);
    let told = holder.finish().expect(79);
    assert!(told.line().contains("lost 'X'"), "{told:?}");
}

#[test]
fn guard_killed_on_redis() {
    guard_killed(Store::redis());
}

#[test]
fn guard_killed_on_local() {
    guard_killed(Store::local());
}

#[test]
fn a_second_signal_kills_on_redis() {
    terminated(Store::redis());
}

#[test]
fn a_second_signal_kills_on_local() {
    terminated(Store::local());
}

/// A job that is broken out of its lock is dead before the next one starts.
#[test]
fn broken() {
    for store in [Store::redis(), Store::local()] {
        let mut scene = Takeover::new(store);
        scene.fault(|scene| {
            scene.store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
        });
        let first = scene.second_is_alone();
        assert_eq!(first.code(), 79, "{first:?}");
        assert!(first.line().contains("it was broken with `redlock break`"), "{first:?}");
    }
}

/// Another takes the lock away, while somebody stops the guard. Whether redlock gave it up.
fn guard_is_given_up(stop: impl FnOnce(&Takeover, i32)) -> bool {
    let mut scene = Takeover::new(Store::redis());
    let guard = scene.first.guard();
    scene.fault(|scene| stop(scene, guard));
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("lost 'X'"), "{first:?}");
    first.stderr.contains("the guard of 'X' was stopped")
}

fn take_away(scene: &Takeover) {
    let redis = scene.store.redis.as_ref().expect("a server");
    redis.cli(&["set", "X", "another", "PX", &(scene.ttl * 4 / 3).as_millis().to_string()]);
}

#[test]
fn a_guard_that_is_stopped_is_woken() {
    assert!(!guard_is_given_up(|scene, guard| {
        pause(guard);
        take_away(scene);
    }));
}

/// Held as by a debugger: it stays stopped when somebody wakes it.
#[test]
fn a_guard_that_stays_stopped_is_given_up() {
    assert!(guard_is_given_up(|scene, guard| {
        freeze(guard);
        take_away(scene);
        await_death(guard);
    }));
}

/// Its cgroup is frozen: nothing wakes it, and in version 1 of cgroups nothing kills it.
#[test]
fn a_guard_in_a_frozen_cgroup_is_given_up() {
    let Some(freezer) = freezer() else { return };
    assert!(guard_is_given_up(|scene, guard| {
        freezer.freeze(guard);
        take_away(scene);
    }));
}

/// A job that may go on without its lock has no time to be stopped at: nobody looks at its guard.
#[test]
fn a_guard_that_has_nothing_to_stop_is_left_alone() {
    let store = Store::redis();
    let (lease, limit) = (slowed(1500), Duration::from_secs(20));
    let [log, woken] = ["log", "woken"].map(|name| store.folder.path(name));
    let job = format!("trap 'touch {}' USR1; until [ -e go ]; do sleep 0.05; done", woken.display());
    let log_file = format!("--log-file={}", log.display());
    let run =
        ["run", "-k", "X", "--on-lost", "continue", "--ttl", &in_ms(lease), &log_file, "sh", "-c", &job];
    let mut run = store.redlock(&run);
    run.command.current_dir(store.folder.path(""));
    let run = run.spawn();
    let has_logged = |what: &str| fs::read_to_string(&log).is_ok_and(|log| log.contains(what));
    eventually(limit, "a renewal", || has_logged("lock_renewed"));
    store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
    eventually(limit, "the loss", || has_logged("lock_lost"));
    run.signal(Signal::SIGUSR1);
    await_file(&woken);
    pause(run.guard());
    throughout(lease * 2, || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", run.guard())).expect("a guard");
        assert!(stat.contains(") T "), "{stat}");
    });
    kill(Pid::from_raw(run.guard()), Signal::SIGCONT).expect("a signal to the guard");
    fs::write(store.folder.path("go"), "").expect("a file");
    run.finish().expect(79);
}

/// A command that left nothing behind is over when it ends: the release does not wait for the guard, and the verdict wakes it.
#[test]
fn a_guard_that_is_stopped_holds_up_no_release() {
    let store = Store::redis();
    let run = store.redlock(&["run", "-k", "X", "--ttl", "1h", "--", "cat"]).open_stdin().spawn();
    run.command();
    pause(run.guard());
    run.let_go().expect(0);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// The guard may not have told redlock of the start yet.
#[test]
fn a_command_that_stops_its_guard_ends_all_the_same() {
    let store = Store::local();
    let script = "read -r pid name state guard rest </proc/$PPID/stat; kill -STOP $guard; exit 3";
    for _ in 0..20 {
        store.redlock(&["run", "-k", "X", "--ttl", "1h", "--", "sh", "-c", script]).run().expect(3);
    }
}

/// The parent of the command is not the guard, and is woken by it.
#[test]
fn a_command_that_stops_its_parent_ends_all_the_same() {
    let store = Store::local();
    let start = Instant::now();
    let job = ["run", "-k", "X", "--ttl", "1s", "--", "sh", "-c", "kill -STOP $PPID; exit 3"];
    store.redlock(&job).run().expect(3);
    within(Duration::from_secs(2), start);
}

/// With its parent the command has lost who waits for it.
#[test]
fn a_command_that_kills_its_parent_is_killed() {
    let scene = Takeover::new(Store::local());
    let guard = scene.first.guard();
    let mut scene = scene;
    scene.fault(|_| kill(Pid::from_raw(children(guard)[0]), Signal::SIGKILL).expect("a signal"));
    assert_eq!(scene.second_is_alone().code(), -9);
}

/// Nothing else wakes the guard then: no order of redlock's to extend a lease, or only after a long time.
#[test]
fn a_command_that_stops_its_parent_ends_at_once() {
    let store = Store::local();
    for options in [&["--ttl", "10m"], &["--on-lost", "continue"]] {
        let go = store.folder.path(options[1]);
        let script = format!("while [ ! -e {go:?} ]; do sleep 0.05; done; kill -STOP $PPID; exit 3");
        let run = [&["run", "-k", "X"], &options[..], &["--", "sh", "-c", &script]].concat();
        let run = store.redlock(&run).spawn();
        let guard = Pid::from_raw(run.guard());
        // It leaves the session when the command has started.
        eventually(Duration::from_secs(10), "the start of the command", || getsid(Some(guard)) == Ok(guard));
        fs::write(go, "").expect("a file");
        run.finish().expect(3);
    }
}

/// A job is killed also when there is no descriptor left for looking at it, in the whole system, or here for one process.
#[test]
fn without_descriptors_the_job_is_killed() {
    for is_guard_killed in [false, true] {
        let store = Store::redis();
        let [file, ready] = ["pid", "ready"].map(|name| store.folder.path(name));
        let below = format!("trap \"\" TERM; echo $$ > {file:?}; touch {ready:?}; sleep 100; true");
        let run = store.redlock(&["run", "-k", "X", "--", "setsid", "-w", "sh", "-c", &below]).spawn();
        let job = pid_in(&file);
        await_file(&ready);
        let guard = run.guard();
        let [killed, alone] = if is_guard_killed { [guard, run.pid()] } else { [run.pid(), guard] };
        // All numbers below are in use. Not fewer: poll(2) takes no more descriptors than the limit.
        let free = (0..).find(|fd| fs::symlink_metadata(format!("/proc/{alone}/fd/{fd}")).is_err());
        let limit = free.expect("a free number");
        let none = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: the struct lives through the call.
        let set = unsafe { libc::prlimit(alone, libc::RLIMIT_NOFILE, &none, std::ptr::null_mut()) };
        assert_eq!(set, 0, "prlimit");
        kill(Pid::from_raw(killed), Signal::SIGKILL).expect("a signal");
        eventually(Duration::from_secs(10), "the end of the job", || !is_alive(job));
        eventually(Duration::from_secs(10), "the end of who killed it", || !is_alive(alone));
    }
}

/// The kernel has no memory for a list of processes, as in a memory cgroup at its limit: the command dies first, which gives
/// some back, and then the rest.
#[test]
fn processes_that_cannot_be_listed() {
    let store = Store::local();
    let [command, child] = ["command", "child"].map(|name| store.folder.path(name));
    let script = format!("sh -c 'echo $$ > {child:?}; sleep 100; true' & echo $$ > {command:?}; wait");
    let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
    let pids = [pid_in(&command), pid_in(&child)];
    let guard = run.guard();
    let fail = ["-f", "-qq", "-o/dev/null", "-epread64", "-einject=pread64:error=ENOMEM", "-p"];
    let strace = Redlock::under("strace", &[&fail[..], &[&guard.to_string()]].concat()).spawn();
    await_tracer(guard);
    run.signal(Signal::SIGKILL);
    eventually(Duration::from_secs(10), "the end of the command", || !is_alive(pids[0]));
    strace.signal(Signal::SIGTERM);
    eventually(Duration::from_secs(10), "the end of the rest", || !pids.into_iter().any(is_alive));
    run.finish().expect(-9);
    strace.finish();
}
