//! Acquire, renew, check and release by hand, and under `run`.

use std::time::{Duration, Instant};

use crate::harness::{Finished, Redlock, Store, await_file, command_below, eventually, in_ms, slowed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

pub fn one_job_at_a_time(store: &Store) {
    let holder = store.hold("X", &["--label", "the first"]);
    let second = store.redlock(&["run", "--key", "X", "--", "echo", "ran"]).run().expect(75);
    assert_eq!(second.stdout, "");
    let line = second.line();
    assert!(line.starts_with("redlock: 'X' is held by "), "{line}");
    assert!(line.contains(&format!("(pid {}, \"the first\")", holder.pid())), "{line}");
    store.redlock(&["acquire", "--key", "X"]).run().expect(75);

    let first = holder.let_go().expect(0);
    assert_eq!((first.stdout.as_str(), first.stderr.as_str()), ("", ""));
    let third = store.redlock(&["run", "--key", "X", "--", "echo", "ran"]).run().expect(0);
    assert_eq!((third.stdout.as_str(), third.stderr.as_str()), ("ran\n", ""));
}

pub fn a_second_release_says_so(store: &Store) {
    let token = acquire(store, "30s");
    by_hand(store, "release", &token).expect(0);
    by_hand(store, "release", &token).expect(1);
    by_hand(store, "release", &acquire(store, "30s")).expect(0);
}

pub fn a_wrong_token_changes_nothing(store: &Store) {
    let token = acquire(store, "60s");
    let before = store.status("X");
    for command in ["check", "renew", "release"] {
        by_hand(store, command, "00000000-0000-4000-8000-000000000000").expect(1);
        store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    }
    let after = store.status("X");
    assert_eq!(after["holders"][0]["fence"], before["holders"][0]["fence"]);
    assert!(
        after["holders"][0]["left_ms"].as_u64() <= before["holders"][0]["left_ms"].as_u64(),
        "{before} {after}"
    );
    by_hand(store, "check", &token).expect(0);
    by_hand(store, "release", &token).expect(0);
}

/// Two processes that have the token ask at the same time, again and again.
pub fn a_token_may_be_used_twice_at_once(store: &Store) {
    let token = acquire(store, "60s");
    for _ in 0..10 {
        let asking = ["check", "renew"].map(|command| {
            store.redlock(&[command, "--key", "X", "--token", &token]).env("REDLOCK_TTL", "60s").spawn()
        });
        for asking in asking {
            asking.finish().expect(0);
        }
    }
    by_hand(store, "release", &token).expect(0);
}

pub fn a_lease_ends_with_its_ttl(store: &Store) {
    let ttl = store.lease(slowed(1500));
    let start = Instant::now();
    let old = acquire(store, &in_ms(ttl));
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    let acquired =
        store.redlock(&["acquire", "--key", "X", "--wait", "5m", "--ttl", "60s", "--quiet"]).run().expect(0);
    assert!(start.elapsed() >= ttl, "too early: {:?}", start.elapsed());
    let new = acquired.stdout.trim();
    for command in ["renew", "check", "release"] {
        by_hand(store, command, &old).expect(1);
    }
    by_hand(store, "check", new).expect(0);
    by_hand(store, "release", new).expect(0);
}

pub fn min_hold_outlasts_the_job(store: &Store) {
    // On a busy machine two runs may take longer than a short one.
    let mut min_holds = [2, 4, 8, 16, 32].map(Duration::from_secs).into_iter();
    assert!(min_holds.any(|min_hold| is_kept_for(min_hold, store)), "this machine is always too slow");
}

/// The lock is kept for its min-hold after the job, and no longer. `false` when that ended before it could be seen.
fn is_kept_for(min_hold: Duration, store: &Store) -> bool {
    let key = in_ms(min_hold);
    let run =
        |options: &[&str]| store.redlock(&[&["run", "--key", &key], options, &["--", "true"]].concat()).run();
    let start = Instant::now();
    run(&["--min-hold", &in_ms(min_hold)]).expect(0);
    let refused = run(&[]);
    if start.elapsed() >= min_hold {
        return false;
    }
    refused.expect(75);
    run(&["--wait", "5m", "--quiet"]).expect(0);
    assert!(start.elapsed() >= min_hold, "too early: {:?}", start.elapsed());
    true
}

/// The lock is nobody's then: who held it cannot keep it any longer.
pub fn a_release_is_final_while_min_hold_goes_on(store: &Store) {
    let acquired = store.redlock(&["acquire", "--key", "X", "--min-hold", "20s"]).run().expect(0);
    let token = acquired.stdout.trim();
    by_hand(store, "release", token).expect(0);
    for command in ["release", "check", "renew"] {
        by_hand(store, command, token).expect(1);
    }
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    let left = store.status("X")["holders"][0]["left_ms"].as_u64();
    assert!(left.is_some_and(|left| (1..=20_000).contains(&left)), "{left:?}");
}

/// The inner run neither waits nor gives the lock of the outer one back.
pub fn a_job_may_take_its_own_lock_again(store: &Store) {
    let job = r#""$0" run --key X -- echo inner && "$0" check"#;
    let outer = store.redlock(&["run", "--key", "X", "--", "sh", "-c", job, PROGRAM]).run().expect(0);
    assert_eq!((outer.stdout.as_str(), outer.stderr.as_str()), ("inner\n", ""));
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

pub fn a_job_may_take_its_own_lock_again_below_another(store: &Store) {
    let job =
        r#""$0" run --key Y -- "$0" run --key X -- echo inner && "$0" check && "$0" run --key Y -- true"#;
    let outer = store.redlock(&["run", "--key", "X", "--", "sh", "-c", job, PROGRAM]).run().expect(0);
    assert_eq!((outer.stdout.as_str(), outer.stderr.as_str()), ("inner\n", ""));
}

/// The lease lasts as long as the job needs it, and stays with who took it.
pub fn a_lock_taken_by_hand_may_be_taken_again(store: &Store) {
    let lease = store.lease(slowed(2000));
    let (ttl, longer) = (in_ms(lease), (lease * 5 / 2).as_secs_f64());
    let script = format!(
        r#"
        eval "$("$0" acquire --key X --ttl {ttl} --format env)"
        "$0" run --key X --ttl {ttl} -- sh -c 'sleep {longer}; "$0" run --key Y -- "$0" run --key X -- "$0" check && echo inner' "$0"
        "$0" run --key Y --ttl {ttl} -- "$0" run --key X --ttl {ttl} -- "$0" check && "$0" release"#
    );
    let done = store.reached_by(Redlock::under("sh", &["-c", &script, PROGRAM])).run().expect(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("inner\n", ""));
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// Somebody else gives it back while the job runs.
pub fn a_job_does_not_outlive_the_lock_taken_by_hand(store: &Store) {
    let ttl = store.ttl(1000);
    let token = acquire(store, &ttl);
    let mut inner = store.redlock(&["run", "--key", "X", "--ttl", &ttl, "--", "sleep", "60"]);
    inner.command.env("REDLOCK_KEY", "X").env("REDLOCK_TOKEN", &token);
    let inner = inner.spawn();
    let sleeps = || command_below(inner.guard()).is_some();
    eventually(Duration::from_secs(10), "the job", sleeps);
    by_hand(store, "release", &token).expect(0);
    let next = store.hold("X", &[]);
    let lost = inner.finish().expect(79);
    assert!(lost.line().contains("lost 'X'"), "{lost:?}");
    next.let_go().expect(0);
}

/// With the environment of a job, and not below its guard, as at(1) or tmux start it.
pub fn a_job_elsewhere_does_not_outlive_the_lock(store: &Store) {
    let variables = store.folder.path("variables");
    let ttl = store.ttl(1500);
    let job =
        ["run", "--key", "X", "--ttl", &ttl, "--", "sh", "-c", "env > \"$0.new\"; mv \"$0.new\" \"$0\"; cat"];
    let job = [&job[..], &[variables.to_str().expect("a path")]].concat();
    let outer = store.redlock(&job).open_stdin().spawn();
    await_file(&variables);
    let mut elsewhere = store.redlock(&["run", "--key", "X", "--ttl", &ttl, "--", "sleep", "60"]);
    for line in std::fs::read_to_string(&variables).expect("variables").lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| name.starts_with("REDLOCK_")) {
            elsewhere.command.env(name, value);
        }
    }
    let elsewhere = elsewhere.spawn();
    let runs = || command_below(elsewhere.guard()).is_some();
    eventually(Duration::from_secs(10), "the job", runs);
    outer.let_go().expect(0);
    elsewhere.finish().expect(79);
}

/// It ended before it was renewed, so only the release tells.
pub fn a_lock_that_another_holds_at_the_end_is_lost(store: &Store) {
    let holder = store.hold("X", &["--ttl", "60s"]);
    for _ in 0..2 {
        store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    }
    let other = store.hold("X", &[]);
    let lost = holder.let_go().expect(79);
    assert!(lost.line().contains("lost 'X': it is held by"), "{lost:?}");
    other.let_go().expect(0);
}

/// Both jobs ran, and nobody holds the lock any more that would tell of it.
pub fn a_lock_that_another_held_meanwhile_is_lost(store: &Store) {
    let holder = store.hold("X", &["--ttl", "10m"]);
    for _ in 0..2 {
        store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    }
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
    let lost = holder.let_go().expect(79);
    assert!(lost.line().contains("lost 'X'"), "{lost:?}");
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// Takes X and returns the owner token.
fn acquire(store: &Store, ttl: &str) -> String {
    let acquired = store.redlock(&["acquire", "--key", "X", "--ttl", ttl]).run().expect(0);
    acquired.stdout.trim().to_owned()
}

fn by_hand(store: &Store, command: &str, token: &str) -> Finished {
    store.redlock(&[command, "--key", "X", "--token", token]).run()
}

/// Most of the lease is for stopping the job; there is time for a renewal all the same.
pub fn a_long_kill_after_leaves_time_to_renew(store: &Store) {
    let lease = store.lease(slowed(4000));
    let (ttl, kill_after, longer) =
        (in_ms(lease), in_ms(lease * 11 / 15), (lease * 4 / 3).as_secs_f64().to_string());
    let args = ["run", "-k", "X", "--ttl", &ttl, "--kill-after", &kill_after, "--", "sleep", &longer];
    store.redlock(&args).run().expect(0);
}
