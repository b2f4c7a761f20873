//! `acquire --while-pid`: a script that takes its lock in the first line.

use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Redlock, Running, Store, await_file, eventually, in_ms, is_alive, slowed, throughout,
    with_default_signals, within,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");
/// Long before the TTL ends.
const SOON: Duration = Duration::from_secs(5);

pub fn a_killed_script_frees_its_lock(store: &Store) {
    let script = Script::start(store, "--ttl 60s", "read -r _");
    script.running.signal(Signal::SIGKILL);
    script.keeper.is_gone_soon(store);
    script.running.finish().expect(-9);
}

pub fn a_script_that_ends_frees_its_lock(store: &Store) {
    let script = Script::start(store, "--ttl 60s", "read -r _");
    let Script { running, keeper } = script;
    let done = running.let_go().expect(1);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
    keeper.is_gone_soon(store);
}

/// The script goes on, also when the lock is another's before the keeper can look.
pub fn a_release_ends_the_keeper(store: &Store) {
    let rest =
        r#"until [ -e waited-for ]; do sleep 0.05; done; "$0" release; touch released; read -r _; exit 7"#;
    let script = Script::start(store, "--ttl 60s", rest);
    let next = store.redlock(&["run", "--key", "X", "--wait", "--quiet", "--", "cat"]).open_stdin().spawn();
    store.await_waiters("X", 1);
    std::fs::write(store.folder.path("waited-for"), "").expect("a file");
    await_file(&store.folder.path("released"));
    eventually(SOON, "the end of the keeper", || !is_alive(script.keeper.0));
    let done = script.running.let_go().expect(7);
    assert_eq!(done.stderr, "");
    next.let_go().expect(0);
}

pub fn a_lease_is_kept_while_the_script_runs(store: &Store) {
    let lease = store.lease(slowed(3000));
    let script = Script::start(store, &format!("--ttl {}", in_ms(lease)), "read -r _");
    let longer = lease * 7 / 3;
    let fence = store.status("X")["holders"][0]["fence"].clone();
    throughout(longer, || {
        assert_eq!(store.status("X")["holders"][0]["fence"], fence);
        store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    });
    script.running.let_go().expect(1);
    script.keeper.is_gone_soon(store);
}

pub fn a_script_may_take_its_lock_again(store: &Store) {
    let lease = store.lease(slowed(2800));
    let (outer, inner) = (in_ms(lease), in_ms(store.lease(lease * 5 / 7)));
    let longer = (lease * 2).as_secs_f64();
    let rest = format!(
        r#""$0" run --key X --ttl {inner} -- sh -c 'sleep {longer}; echo inner'; "$0" check && read -r _; exit 7"#
    );
    let script = Script::start(store, &format!("--ttl {outer}"), &rest);
    let done = script.running.let_go().expect(7);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("inner\n", ""));
    script.keeper.is_gone_soon(store);
}

/// The next one gets it when the script has ended, not before.
pub fn a_lost_lock_ends_the_script(store: &Store) {
    let script = Script::start(
        store,
        &format!("--ttl {}", store.ttl(3000)),
        "trap 'sleep 0.3; touch cleaned; exit 9' TERM; while :; do sleep 0.05; done",
    );
    let folder = store.folder.path("").display().to_string();
    let next = store
        .redlock(&["run", "--key", "X", "--wait", "--", "sh", "-c", "cd \"$0\"; test -e cleaned", &folder])
        .spawn();
    store.await_waiters("X", 1);
    store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    next.finish().expect(0);
    let lost = script.running.finish().expect(9);
    let pid = script.keeper.1;
    let line = lost.line();
    assert!(line.starts_with("redlock: lost 'X': it was broken with `redlock break` by "), "{line}");
    assert!(line.ends_with(&format!("; SIGTERM was sent to process {pid}")), "{line}");
    eventually(SOON, "the end of the keeper", || !is_alive(script.keeper.0));
}

/// It asked the wrong store, or its store did not answer: the lock is still held, and may be lost.
pub fn a_release_that_failed_hides_no_loss(store: &Store) {
    let log = store.folder.path("log");
    let options = format!("--log-file {} --ttl {}", log.display(), store.ttl(3000));
    let rest = r#"trap 'exit 9' TERM; "$0" release -S "local:$PWD/other.db"; touch failed; while :; do sleep 0.05; done"#;
    let script = Script::start(store, &options, rest);
    await_file(&store.folder.path("failed"));
    let renewals = || std::fs::read_to_string(&log).unwrap_or_default().matches("lock_renewed").count();
    let before = renewals();
    eventually(SOON, "a renewal since", || renewals() > before + 1);
    for _ in 0..2 {
        store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    }
    let next = store.hold("X", &[]);
    script.running.finish().expect(9);
    next.let_go().expect(0);
}

/// The second time frees the lock at once, beside the script, and leaves nothing that says so.
pub fn a_lock_broken_twice_ends_the_script(store: &Store) {
    let script = Script::start(
        store,
        &format!("--ttl {}", store.ttl(4500)),
        "trap 'exit 9' TERM; while :; do sleep 0.05; done",
    );
    for _ in 0..2 {
        store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    }
    let lost = script.running.finish().expect(9);
    assert!(lost.line().ends_with(&format!("; SIGTERM was sent to process {}", script.keeper.1)), "{lost:?}");
    eventually(SOON, "the end of the keeper", || !is_alive(script.keeper.0));
}

pub fn a_script_may_outlive_its_lock(store: &Store) {
    let options = format!("--ttl {} --on-lost continue", store.ttl(2000));
    let script = Script::start(store, &options, "read -r _; exit 7");
    store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    eventually(Duration::from_secs(5), "the end of the keeper", || !is_alive(script.keeper.0));
    let lost = script.running.let_go().expect(7);
    assert!(
        lost.line().contains("lost 'X': it was broken with `redlock break`")
            && lost.line().contains("goes on"),
        "{lost:?}"
    );
    // The last renewal may have been a moment before the break.
    store.redlock(&["run", "--key", "X", "--wait", "20s", "--", "true"]).run().expect(0);
}

/// Nothing renews then, but the script runs: the lock is its own until the end of the lease.
pub fn a_dead_keeper_leaves_the_lease(store: &Store) {
    let lease = store.lease(slowed(3000));
    let script = Script::start(store, &format!("--ttl {}", in_ms(lease)), "read -r _; exit 7");
    kill(Pid::from_raw(script.keeper.0), Signal::SIGKILL).expect("a signal to the keeper");
    eventually(SOON, "the end of the keeper", || !is_alive(script.keeper.0));
    let start = Instant::now();
    let left = store.status("X")["holders"][0]["left_ms"].as_u64();
    // ZooKeeper does not say it: it was renewed at most a third of the lease ago.
    let left = left.unwrap_or_else(|| {
        assert!(store.is_zookeeper(), "a lease");
        lease.as_millis() as u64 / 2
    });
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    store.redlock(&["run", "--key", "X", "--wait", "5m", "-q", "--", "true"]).run().expect(0);
    // Both times are rounded to whole milliseconds.
    assert!(
        start.elapsed() + Duration::from_millis(2) >= Duration::from_millis(left),
        "too early: {left} ms"
    );
    script.running.let_go().expect(7);
}

/// As at a shutdown, which signals all processes at once: the script may clean up under its lock.
pub fn a_keeper_ends_with_its_script_alone(store: &Store) {
    let script = Script::start(store, "--ttl 60s", "read -r _; exit 7");
    for ignored in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGALRM, Signal::SIGTERM] {
        kill(Pid::from_raw(script.keeper.0), ignored).expect("a signal to the keeper");
    }
    assert!(store.status("X")["holders"][0].is_object() && is_alive(script.keeper.0));
    script.running.let_go().expect(7);
    script.keeper.is_gone_soon(store);
}

pub fn nobody_waits_for_a_script_that_has_ended(store: &Store) {
    let holder = store.hold("X", &[]);
    let mut script = process();
    let acquire = store
        .redlock(&["acquire", "--key", "X", "--wait", "--quiet", "--while-pid", &script.id().to_string()])
        .spawn();
    store.await_waiters("X", 1);
    // Not waited for: a zombie has ended, too.
    script.kill().expect("its death");
    let told = acquire.finish().expect(75);
    assert!(told.line().contains("has ended; nothing was acquired") && told.stdout.is_empty(), "{told:?}");
    script.wait().expect("its end");
    store.await_waiters("X", 0);
    holder.let_go().expect(0);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// Whenever `acquire` dies: either somebody has the owner token, or the lock is given back.
pub fn a_dead_acquire_leaves_no_lock(store: &Store) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut script = process();
    let pid = script.id().to_string();
    for _ in 0..30 {
        let acquire = store.redlock(&["acquire", "--key", "X", "--ttl", "60s", "--while-pid", &pid]).spawn();
        thread::sleep(Duration::from_micros(random.u64(..8_000)));
        acquire.signal(Signal::SIGKILL);
        let dead = acquire.finish();
        if dead.stdout.ends_with('\n') && !is_free_soon(store) {
            store.redlock(&["release", "--key", "X", "--token", dead.stdout.trim()]).run().expect(0);
        }
        eventually(SOON * 3, "a free lock", || store.status("X")["holders"][0].is_null());
    }
    script.kill().expect("its death");
    script.wait().expect("its end");
}

/// Who waits for the end of a pipe that acquire writes to does not wait for the keeper.
pub fn no_stream_is_held_open(store: &Store) {
    let mut script = process();
    let pid = script.id().to_string();
    // Reads stdout and stderr to their ends.
    let acquired = store.redlock(&["acquire", "--key", "X", "--while-pid", &pid]).run().expect(0);
    assert_eq!(acquired.stderr, "");
    let shown = &store.status("X")["holders"][0];
    assert_eq!(shown["while_pid"].as_u64().map(|shown| shown.to_string()), Some(pid));
    script.kill().expect("its death");
    script.wait().expect("its end");
    eventually(SOON, "a free lock", || store.status("X")["holders"][0].is_null());
}

/// A job cannot release its own lock, and work on beside the next holder. Another process that has the token can: the next
/// renewal finds that, and ends the job.
pub fn a_job_without_its_lock_is_stopped(store: &Store) {
    let folder = store.folder.path("").display().to_string();
    let job =
        r#"cd "$1" && ! "$0" release 2>refused && echo "$REDLOCK_TOKEN" >new && mv new token; exec sleep 60"#;
    let args = ["run", "--key", "X", "--ttl", &store.ttl(2000), "--", "sh", "-c", job, PROGRAM, &folder];
    let mut running = store.redlock(&args).spawn();
    running.await_file(&store.folder.path("token"));
    let read = |name: &str| std::fs::read_to_string(store.folder.path(name)).expect("what the job wrote");
    assert!(read("refused").contains("redlock releases the lock when the command ends"));
    store.redlock(&["release", "-k", "X", "--token", read("token").trim()]).run().expect(0);
    let lost = running.finish().expect(79);
    // In etcd and ZooKeeper nothing is left that tells a release from a deletion.
    let why = if store.counts_in_seconds() { "deleted" } else { "it was released with its owner token" };
    assert!(lost.line().contains(why), "{lost:?}");
}

/// A store that knows that nobody else had the lock takes it again. Every other one counts it as lost, also when its lease
/// was ended from outside.
pub fn a_job_does_not_outlive_a_lock_that_is_gone(store: &Store) {
    let ttl = store.ttl(2000);
    let job = store.hold("X", &["--ttl", &ttl]);
    store.lose_everything();
    if store.counts_in_seconds() {
        let lost = job.finish().expect(79);
        assert!(lost.line().starts_with("redlock: lost 'X': it was broken or deleted"), "{lost:?}");
    } else {
        store.await_holder("X");
        let healed = job.let_go().expect(0);
        assert!(healed.stderr.contains("'X'"), "{healed:?}");
    }
}

pub fn a_script_does_not_outlive_a_lock_that_is_gone(store: &Store) {
    let options = format!("--ttl {}", store.ttl(2000));
    let script = Script::start(store, &options, "trap 'exit 9' TERM; until [ -e end ]; do sleep 0.05; done");
    store.lose_everything();
    if store.counts_in_seconds() {
        let lost = script.running.finish().expect(9);
        let line = lost.line();
        assert!(line.starts_with("redlock: lost 'X': "), "{line}");
        assert!(line.ends_with(&format!("; SIGTERM was sent to process {}", script.keeper.1)), "{line}");
    } else {
        store.await_holder("X");
        std::fs::write(store.folder.path("end"), "").expect("a file");
        script.running.finish().expect(0);
    }
    eventually(SOON, "the end of the keeper", || !is_alive(script.keeper.0));
}

/// A script that has the lock X.
struct Script {
    running: Running,
    keeper: Keeper,
}

/// The pid of the keeper, and that of the script.
struct Keeper(i32, i32);

impl Script {
    fn start(store: &Store, options: &str, rest: &str) -> Script {
        let acquire = format!(
            r#"cd "$1" && eval "$("$0" acquire --key X {options} --while-pid $$ --format env)" && touch taken; until [ -e go ]; do sleep 0.05; done; {rest}"#
        );
        let folder = store.folder.path("").display().to_string();
        let script = store.reached_by(Redlock::under("bash", &["-c", &acquire, PROGRAM, &folder]));
        let mut running = script.open_stdin().spawn();
        // Before that, the end of the keeper is seen by `acquire`.
        running.await_file(&store.folder.path("taken"));
        let holder = store.status("X")["holders"][0].clone();
        let pid = |name: &str| holder[name].as_i64().expect("a pid") as i32;
        let (keeper, script) = (pid("pid"), pid("while_pid"));
        assert_eq!(script, running.pid());
        std::fs::write(store.folder.path("go"), "").expect("a file");
        Script { running, keeper: Keeper(keeper, script) }
    }
}

impl Keeper {
    #[track_caller]
    fn is_gone_soon(&self, store: &Store) {
        let start = Instant::now();
        eventually(SOON, "a free lock", || store.status("X")["holders"][0].is_null());
        eventually(SOON, "the end of the keeper", || !is_alive(self.0));
        within(SOON, start);
        store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
    }
}

/// Whether the lock is free before long.
fn is_free_soon(store: &Store) -> bool {
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        if store.status("X")["holders"][0].is_null() {
            return true;
        }
    }
    false
}

/// A process that does nothing.
fn process() -> Child {
    let mut command = Command::new("sleep");
    with_default_signals(command.arg("60"));
    command.spawn().expect("a process")
}
