//! Several keys: all or none, in one order.

use std::io::{Read, Write};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Redlock, Running, Store, eventually, in_ms, pid_in, slowed};

const BOTH: [&str; 4] = ["-k", "b", "-k", "a"];

fn run(store: &Store, options: &[&str], job: &[&str]) -> Redlock {
    store.redlock(&[&["run"], &BOTH[..], options, &["--"], job].concat())
}

fn is_held_by(store: &Store, key: &str, pid: i32) -> bool {
    store.status(key)["holders"][0]["pid"].as_i64() == Some(pid.into())
}

fn are_free(store: &Store) -> bool {
    ["a", "b"].iter().all(|key| {
        let status = store.status(key);
        status["holders"][0].is_null() && status["waiters"][0].is_null()
    })
}

fn await_renewal(store: &Store, key: &str) {
    if store.is_zookeeper() {
        // Nobody sees how long a session lives on: it lives longer than it would without a renewal.
        std::thread::sleep(store.lease(slowed(900)) + Duration::from_secs(1));
        return assert!(store.status(key)["holders"][0].is_object());
    }
    let left = || store.status(key)["holders"][0]["left_ms"].as_u64().unwrap_or(0);
    let mut before = left();
    eventually(Duration::from_secs(20), "a renewal", || {
        let now = left();
        println!("{now} ms left");
        now > std::mem::replace(&mut before, now)
    });
}

/// Somebody who waits for b and has a.
fn half_way(store: &Store, options: &[&str]) -> Running {
    let waiter = run(store, &[&["--wait"], options].concat(), &["echo", "ran"]).spawn();
    store.await_waiters("b", 1);
    assert!(is_held_by(store, "a", waiter.pid()));
    waiter
}

pub fn they_are_held_together(store: &Store) {
    let job =
        run(store, &[], &["sh", "-c", "echo \"$REDLOCK_KEY $REDLOCK_FENCE\"; cat"]).open_stdin().spawn();
    let mut fences = Vec::new();
    for key in ["a", "b"] {
        eventually(Duration::from_secs(20), key, || is_held_by(store, key, job.pid()));
        fences.push(store.status(key)["holders"][0]["fence"].as_u64().expect("a fencing token"));
        let busy = store.redlock(&["run", "-k", key, "--", "true"]).run().expect(75);
        assert!(busy.line().contains(&format!("'{key}' is held by")), "{busy:?}");
    }
    let ended = job.let_go().expect(0);
    assert_eq!(ended.stdout, format!("a\nb {}\n{}\n", fences[0], fences[1]));
    assert!(are_free(store));
}

pub fn all_of_them_or_none(store: &Store) {
    for key in ["a", "b"] {
        store.redlock(&["run", "-k", "a", "--", "true"]).run().expect(0);
        let holder = store.hold(key, &[]);
        let busy = run(store, &[], &["echo", "ran"]).run().expect(75);
        assert!(busy.line().contains(&format!("'{key}' is held by")), "{busy:?}");
        assert_eq!(busy.stdout, "");
        holder.let_go().expect(0);
        assert!(are_free(store));
    }
}

/// Not even for a moment: nobody who wanted `a` alone was sent away for nothing.
pub fn what_is_free_is_not_touched(store: &Store) {
    let holder = store.hold("b", &[]);
    run(store, &[], &["true"]).run().expect(75);
    let status = store.redlock(&["status", "--json"]).run().expect(0);
    assert!(!status.stdout.contains("\"a\""), "{status:?}");
    holder.let_go().expect(0);
}

pub fn what_is_held_is_kept_while_waiting(store: &Store) {
    let holder = store.hold("b", &[]);
    let waiter = half_way(store, &["--ttl", &store.ttl(2000)]);
    await_renewal(store, "a");
    store.redlock(&["run", "-k", "a", "--", "true"]).run().expect(75);
    holder.let_go().expect(0);
    assert_eq!(waiter.finish().expect(0).stdout, "ran\n");
    assert!(are_free(store));
}

/// What was held is taken away: it starts over, and runs in the end.
pub fn what_is_lost_while_waiting_is_taken_again(store: &Store) {
    let holder = store.hold("b", &[]);
    let waiter = half_way(store, &["--ttl", &store.ttl(2000)]);
    let fence = |key: &str| store.status(key)["holders"][0]["fence"].as_u64();
    let before = fence("a");
    // A lease as short as this may be lost without our doing, and is taken again then.
    let is_broken = || store.redlock(&["break", "-k", "a", "--yes"]).run().code() == 0;
    eventually(Duration::from_secs(20), "a lock that was taken away", is_broken);
    eventually(Duration::from_secs(20), "another grant", || fence("a").is_some_and(|now| Some(now) > before));
    store.await_waiters("b", 1);
    holder.let_go().expect(0);
    assert_eq!(waiter.finish().expect(0).stdout, "ran\n");
    assert!(are_free(store));
}

pub fn giving_up_gives_all_back(store: &Store) {
    let holder = store.hold("b", &[]);
    let gave_up = run(store, &["--wait", &in_ms(slowed(2000))], &["echo", "ran"]).run().expect(75);
    let said = &gave_up.stderr;
    assert!(said.contains("gave up after ") && said.contains(": 'b' is held by"), "{gave_up:?}");
    // redlock waits for the answer for a second at most, and the lease would last for longer than this.
    let is_back = || store.status("a")["holders"][0].is_null();
    eventually(Duration::from_secs(10), "the lock that was given back", is_back);
    let told = half_way(store, &[]);
    told.signal(Signal::SIGTERM);
    assert_eq!(told.finish().expect(-15).stdout, "");
    eventually(Duration::from_secs(10), "the lock that was given back again", is_back);
    holder.let_go().expect(0);
    assert!(are_free(store));
}

pub fn who_waits_for_one_does_not_hold_up_another(store: &Store) {
    let holder = store.hold("a", &[]);
    let waiter = run(store, &["--wait"], &["echo", "ran"]).spawn();
    store.await_waiters("a", 1);
    store.redlock(&["run", "-k", "b", "--", "true"]).run().expect(0);
    holder.let_go().expect(0);
    assert_eq!(waiter.finish().expect(0).stdout, "ran\n");
}

pub fn one_that_is_lost_ends_the_job(store: &Store) {
    let job = run(store, &["--ttl", &store.ttl(2000)], &["sleep", "60"]).spawn();
    store.await_holder("a");
    store.redlock(&["break", "-k", "b", "--yes"]).run().expect(0);
    let lost = job.finish().expect(79);
    assert!(lost.line().contains("lost 'b': it was broken with `redlock break`"), "{lost:?}");
    assert!(are_free(store));
}

pub fn the_others_are_kept_for_a_job_that_goes_on(store: &Store) {
    let ttl = store.ttl(3000);
    let job = run(store, &["--ttl", &ttl, "--on-lost", "continue"], &["cat"]).open_stdin().spawn();
    store.await_holder("b");
    store.redlock(&["break", "-k", "b", "--yes"]).run().expect(0);
    store.redlock(&["run", "-k", "b", "--wait", "--", "true"]).run().expect(0);
    await_renewal(store, "a");
    let lost = job.let_go().expect(79);
    assert!(lost.line().contains("lost 'b'"), "{lost:?}");
    assert!(are_free(store));
}

pub fn the_others_are_kept_for_a_script_that_goes_on(store: &Store) {
    let program = env!("CARGO_BIN_EXE_redlock");
    let ttl = store.ttl(3000);
    let script = format!(
        r#"trap 'echo told' TERM
        eval "$("$0" acquire -k b -k a --ttl {ttl} --while-pid $$ --format env)"
        until read -r line && [ "$line" = end ]; do [ $? -gt 128 ] || exit; done"#
    );
    let mut script = store.reached_by(Redlock::under("bash", &["-c", &script, program])).open_stdin().spawn();
    store.await_holder("b");
    store.redlock(&["break", "-k", "b", "--yes"]).run().expect(0);
    store.redlock(&["run", "-k", "b", "--wait", "--", "true"]).run().expect(0);
    await_renewal(store, "a");
    script.child.stdin.as_mut().expect("its stdin").write_all(b"end\n").expect("a line");
    let told = script.finish().expect(0);
    assert_eq!(told.stdout, "told\n");
    eventually(Duration::from_secs(1), "the locks are free", || are_free(store));
}

/// Who was in line behind the one that gave up half way looks after the holder now, or is let in.
pub fn who_gives_up_half_way_holds_up_nobody(store: &Store) {
    let reader = store.hold("b", &["--shared"]);
    let waiter = half_way(store, &[]);
    let behind = store.redlock(&["run", "-k", "b", "--shared", "--wait", "--", "echo", "ran"]).spawn();
    store.await_waiters("b", 2);
    waiter.signal(Signal::SIGTERM);
    eventually(Duration::from_secs(3), "the next reader", || store.waiters("b") == 0);
    assert_eq!(behind.finish().expect(0).stdout, "ran\n");
    reader.let_go().expect(0);
}

/// Nobody got the owner token: not even the min-hold keeps the lock.
pub fn an_acquire_killed_half_way_leaves_nothing(store: &Store) {
    let holder = store.hold("b", &[]);
    let mut me = store
        .reached_by(Redlock::under(
            "bash",
            &[
                "-c",
                r#""$0" acquire -k a -k b --wait --min-hold 1h --while-pid $$ & echo $!; cat"#,
                env!("CARGO_BIN_EXE_redlock"),
            ],
        ))
        .open_stdin()
        .spawn();
    store.await_waiters("b", 1);
    let mut pid = [0; 16];
    let length = me.child.stdout.as_mut().expect("its stdout").read(&mut pid).expect("a pid");
    let pid = String::from_utf8_lossy(&pid[..length]).trim().parse().expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a signal to acquire");
    eventually(Duration::from_secs(5), "nothing is held", || store.status("a")["holders"][0].is_null());
    me.let_go().expect(0);
    holder.let_go().expect(0);
}

pub fn some_of_them_may_be_held_around(store: &Store) {
    let program = env!("CARGO_BIN_EXE_redlock");
    let inner = r#"echo "$REDLOCK_KEY" "$REDLOCK_FENCE"; "$0" status --json a b | grep -c '"fence"'"#;
    let inner = [program, "run", "-k", "b", "-k", "a", "--", "sh", "-c", inner, program];
    let run = store.redlock(&[&["run", "-k", "a", "--"][..], &inner].concat()).run().expect(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    // Those that were taken last are named, and both are held.
    assert!(lines[0].starts_with("b ") && lines[1] == "2", "{run:?}");
    assert!(are_free(store));
}

pub fn by_hand_as_well(store: &Store) {
    let acquired = store.redlock(&[&["acquire", "--format", "json"], &BOTH[..]].concat()).run().expect(0);
    let acquired: serde_json::Value = serde_json::from_str(&acquired.stdout).expect("JSON");
    let fence = |key: &str| store.status(key)["holders"][0]["fence"].clone();
    let each = serde_json::json!([{ "key": "a", "fence": fence("a") }, { "key": "b", "fence": fence("b") }]);
    assert_eq!(acquired["locks"], each);
    let token = acquired["token"].as_str().expect("an owner token");
    let with_token = |command: &str, keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["-k", key]);
        let args: Vec<&str> = [command, "--token", token].into_iter().chain(keys).collect();
        store.redlock(&args).run()
    };
    with_token("check", &["a", "b"]).expect(0);
    with_token("renew", &["a", "b"]).expect(0);
    with_token("release", &["b"]).expect(0);
    with_token("release", &["a", "a"]).expect(64);
    let lacks = with_token("check", &["a", "b"]).expect(1);
    assert!(lacks.line().contains("does not hold 'b'"), "{lacks:?}");
    let lacks = with_token("release", &["a", "b"]).expect(1);
    assert!(lacks.line().contains("does not hold 'b'"), "{lacks:?}");
    assert!(are_free(store));
}

/// The idiom of scripts: the environment carries all of them.
pub fn a_script_gives_them_back_one_by_one(store: &Store) {
    let program = env!("CARGO_BIN_EXE_redlock");
    let pid = store.folder.path("pid").display().to_string();
    let script = r#"eval "$("$0" acquire -k b -k a --ttl "$2" --while-pid $$ --format env)"
        "$0" check || exit 9
        "$0" release -k a || exit 8
        echo $$ > "$1"; read -r _"#;
    let script = store
        .reached_by(Redlock::under("bash", &["-c", script, program, &pid, &store.ttl(9000)]))
        .open_stdin()
        .spawn();
    pid_in(&store.folder.path("pid"));
    assert!(store.status("a")["holders"][0].is_null());
    await_renewal(store, "b");
    script.let_go().expect(1);
    // Sooner than the lease ends.
    eventually(Duration::from_secs(5), "the locks are free", || are_free(store));
}
