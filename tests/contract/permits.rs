//! The number of a permit: `REDLOCK_PERMIT`.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Running, Store, eventually, throughout};

const THREE: [&str; 4] = ["run", "X", "--permits", "3"];

/// The numbers of those who hold it now, in their order.
fn numbers(store: &Store) -> Vec<u64> {
    let lock = store.status("X");
    let holders = lock["holders"].as_array().into_iter().flatten();
    let mut numbers: Vec<u64> = holders.filter_map(|holder| holder["permit"].as_u64()).collect();
    numbers.sort_unstable();
    numbers
}

/// Holds a permit until it is let go, and notes its number in a file.
fn hold(store: &Store, name: &str, options: &[&str]) -> Running {
    let file = store.folder.path(name);
    let job = ["--", "sh", "-c", "echo \"$REDLOCK_PERMIT\" > \"$0\"; cat", file.to_str().expect("a path")];
    store.redlock(&[&THREE[..], options, &job].concat()).open_stdin().spawn()
}

fn number_of(store: &Store, running: &mut Running, name: &str) -> String {
    let read = || std::fs::read_to_string(store.folder.path(name)).unwrap_or_default();
    running.lives_until("its number is written", || read().ends_with('\n'));
    read().trim().to_owned()
}

/// The lowest free number, also for who waited.
pub fn each_permit_has_a_number(store: &Store) {
    let mut holders = Vec::new();
    for number in ["0", "1", "2"] {
        let mut holder = hold(store, number, &[]);
        assert_eq!(number_of(store, &mut holder, number), number);
        holders.push(holder);
    }
    assert_eq!(numbers(store), [0, 1, 2]);
    let text = store.redlock(&["status", "X"]).run().expect(0).stdout;
    let shown: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("permit ")).map(str::trim).collect();
    assert_eq!(shown, ["0", "1", "2"], "{text}");
    let mut waiter = hold(store, "waiter", &["--wait"]);
    store.await_waiters("X", 1);
    holders.remove(1).let_go().expect(0);
    assert_eq!(number_of(store, &mut waiter, "waiter"), "1");
    holders.remove(0).let_go().expect(0);
    eventually(Duration::from_secs(20), "the number is free", || numbers(store) == [1, 2]);
    let mut next = hold(store, "next", &[]);
    assert_eq!(number_of(store, &mut next, "next"), "0");
    for holder in holders.into_iter().chain([waiter, next]) {
        holder.let_go().expect(0);
    }
}

/// In the formats of `acquire`, and for a job that runs under it.
pub fn by_hand_a_permit_has_a_number(store: &Store) {
    let acquire = |format: &str| {
        let acquired = store.redlock(&["acquire", "X", "--permits", "3", "--ttl", "60s", "--format", format]);
        acquired.run().expect(0).stdout
    };
    let exports = acquire("env");
    assert!(exports.contains(" REDLOCK_PERMIT='0'"), "{exports}");
    let json: Value = serde_json::from_str(&acquire("json")).expect("JSON");
    assert_eq!((&json["permit"], &json["locks"][0]["permit"]), (&1.into(), &1.into()));
    assert!(acquire("fish").contains("set -gx REDLOCK_PERMIT '2';"));
    // The job inherits the permit, and one below it with another lock does not see its number.
    let inner = "echo \"$REDLOCK_PERMIT\"; \"$1\" run Y -- sh -c 'echo \"[$REDLOCK_PERMIT]\"'";
    let script = format!(
        "{exports}exec \"$0\" run X --permits 3 -- sh -c '{}' sh \"$0\"",
        inner.replace('\'', "'\\''")
    );
    let program = env!("CARGO_BIN_EXE_redlock");
    let ran = crate::harness::Redlock::under("sh", &["-c", &script, program]);
    let ran = store.reached_by(ran).run().expect(0);
    assert_eq!(ran.stdout, "0\n[]\n", "{ran:?}");
}

/// Several keys have a line each, and what is not a semaphore has no number.
pub fn only_permits_have_numbers(store: &Store) {
    let first = hold(store, "first", &[]);
    eventually(Duration::from_secs(20), "it is held", || numbers(store) == [0]);
    let both = ["run", "-k", "X", "-k", "W", "--permits", "3", "--", "printenv", "REDLOCK_PERMIT"];
    assert_eq!(store.redlock(&both).run().expect(0).stdout, "0\n1\n");
    first.let_go().expect(0);
    for mode in [&[][..], &["--shared"]] {
        let args = [&["run", "Y"][..], mode, &["--", "printenv", "REDLOCK_PERMIT"]].concat();
        store.redlock(&args).run().expect(1);
    }
    assert!(store.status("Y")["holders"][0]["permit"].is_null());
}

/// The number of one who died is given again when his lease is over, not before.
pub fn the_number_of_the_dead_is_given_again(store: &Store) {
    let ttl = if store.is_local() { "60s" } else { &store.ttl(1000) };
    let dead = hold(store, "dead", &["--ttl", ttl]);
    eventually(Duration::from_secs(20), "it is held", || numbers(store) == [0]);
    let mut second = hold(store, "second", &["--ttl", "60s"]);
    assert_eq!(number_of(store, &mut second, "second"), "1");
    dead.signal(Signal::SIGKILL);
    dead.finish().expect(-9);
    eventually(Duration::from_secs(30), "its lease is over", || numbers(store) == [1]);
    let mut next = hold(store, "next", &[]);
    assert_eq!(number_of(store, &mut next, "next"), "0");
    for holder in [second, next] {
        holder.let_go().expect(0);
    }
}

/// The store loses everything: who takes the lock again has the number from before.
pub fn a_permit_that_heals_keeps_its_number(store: &Store) {
    let ttl = store.ttl(3000);
    let first = hold(store, "first", &["--ttl", &ttl]);
    eventually(Duration::from_secs(20), "it is held", || numbers(store) == [0]);
    let second = hold(store, "second", &["--ttl", &ttl]);
    eventually(Duration::from_secs(20), "both are held", || numbers(store) == [0, 1]);
    first.let_go().expect(0);
    eventually(Duration::from_secs(20), "one is held", || numbers(store) == [1]);
    store.lose_everything();
    eventually(Duration::from_secs(20), "it heals", || numbers(store) == [1]);
    let mut next = hold(store, "next", &[]);
    assert_eq!(number_of(store, &mut next, "next"), "0");
    for holder in [second, next] {
        holder.let_go().expect(0);
    }
}

/// A job that takes several has several numbers, and as many are not free for others.
pub fn a_heavy_job_takes_several(store: &Store) {
    let mut light = hold(store, "light", &[]);
    assert_eq!(number_of(store, &mut light, "light"), "0");
    let mut heavy = hold(store, "heavy", &["--take", "2"]);
    assert_eq!(number_of(store, &mut heavy, "heavy"), "1,2");
    let lock = store.status("X");
    let held = &lock["holders"][1];
    assert_eq!((&held["permit"], held["permits"].to_string()), (&1.into(), "[1,2]".to_owned()), "{lock}");
    let text = store.redlock(&["status", "X"]).run().expect(0).stdout;
    assert!(text.contains("3 of 3 permits held") && text.contains("permits  1,2"), "{text}");
    store.redlock(&[&THREE[..], &["true"]].concat()).run().expect(75);
    heavy.let_go().expect(0);
    // It needs one more than there are.
    store.redlock(&[&THREE[..], &["--take", "3", "true"]].concat()).run().expect(75);
    store.redlock(&[&THREE[..], &["--take", "2", "true"]].concat()).run().expect(0);
    light.let_go().expect(0);
    let acquire = ["acquire", "X", "-p", "3", "--take", "3", "--ttl", "60s", "--format", "json"];
    let json: Value = serde_json::from_str(&store.redlock(&acquire).run().expect(0).stdout).expect("JSON");
    assert_eq!((&json["permit"], json["locks"][0]["permits"].to_string()), (&0.into(), "[0,1,2]".to_owned()));
    let token = json["token"].as_str().expect("a token");
    store.redlock(&["renew", "X"]).env("REDLOCK_TOKEN", token).run().expect(0);
    store.redlock(&["release", "X"]).env("REDLOCK_TOKEN", token).run().expect(0);
    assert!(store.status("X")["holders"][0].is_null());
}

/// The head of the queue may want more than there is: a light job behind it waits as well, and the two start in their order.
pub fn a_light_job_does_not_overtake_a_heavy_one(store: &Store) {
    let mut first = hold(store, "first", &[]);
    assert_eq!(number_of(store, &mut first, "first"), "0");
    let heavy = store.wait_in_line("X", "heavy", &["-p", "3", "--take", "3"]);
    store.await_waiters("X", 1);
    let light = store.wait_in_line("X", "light", &["-p", "3"]);
    store.await_waiters("X", 2);
    assert_eq!(store.status("X")["waiters"][0]["take"], 3);
    let text = store.redlock(&["status", "X"]).run().expect(0).stdout;
    assert!(text.contains("to take 3 permits"), "{text}");
    store.redlock(&[&THREE[..], &["true"]].concat()).run().expect(75);
    assert_eq!(numbers(store), [0]);
    first.let_go().expect(0);
    heavy.finish().expect(0);
    light.finish().expect(0);
    assert_eq!(store.order(), ["heavy", "light"]);
}

/// A job inside has what the outer one took, and no more, also when the number of permits has changed.
pub fn a_job_inside_has_the_permits_of_the_outer_one(store: &Store) {
    let inner = r#""$0" resize X -p 6 -q && "$0" run X -p 3 --take 2 -- sh -c 'echo $REDLOCK_PERMIT' && "$0" run X -p 6 --take 3 true"#;
    let job = ["--take", "2", "--", "sh", "-c", inner, env!("CARGO_BIN_EXE_redlock")];
    let ran = store.redlock(&[&THREE[..], &job].concat()).run().expect(78);
    assert_eq!(ran.stdout, "0,1\n");
    assert!(ran.stderr.contains("holds 2 of the permits of 'X', and --take 3 is more"), "{ran:?}");
}

/// Several permits of one holder are healed, and told of a break, together.
pub fn several_permits_are_one_lease(store: &Store) {
    let ttl = store.ttl(5000);
    let mut heavy = hold(store, "heavy", &["--take", "2", "--ttl", &ttl]);
    assert_eq!(number_of(store, &mut heavy, "heavy"), "0,1");
    store.lose_everything();
    eventually(Duration::from_secs(20), "it heals", || numbers(store) == [0]);
    let mut next = hold(store, "next", &[]);
    assert_eq!(number_of(store, &mut next, "next"), "2");
    store.redlock(&["break", "X", "--yes"]).run().expect(0);
    for (holder, heals) in [(heavy, 1), (next, 0)] {
        let ended = holder.finish().expect(79);
        // What is broken is not healed.
        assert_eq!(ended.stderr.matches("it is held again").count(), heals, "{ended:?}");
        assert!(ended.stderr.contains("it was broken with"), "{ended:?}");
    }
    eventually(Duration::from_secs(20), "nothing is left", || numbers(store).is_empty());
}

/// More permits go to those who wait; with fewer nobody is let in before enough were returned. Waiters count with the new
/// number, and so does who comes.
pub fn the_number_of_permits_changes(store: &Store) {
    let resize = |permits: &str| store.redlock(&["resize", "X", "--permits", permits]).run();
    assert!(resize("2").expect(1).stderr.contains("'X' is not in use"));
    let mut holders = Vec::new();
    for name in ["a", "b", "c"] {
        let mut holder = hold(store, name, &[]);
        number_of(store, &mut holder, name);
        holders.push(holder);
    }
    let mut waiting = Vec::new();
    for (place, name) in (1..).zip(["d", "e"]) {
        waiting.push(hold(store, name, &["--wait"]));
        store.await_waiters("X", place);
    }
    assert!(resize("4").expect(0).stderr.contains("'X' has 4 permits now; it had 3"));
    assert_eq!(number_of(store, &mut waiting[0], "d"), "3");
    let refused = store.redlock(&[&THREE[..], &["true"]].concat()).run().expect(78);
    assert!(refused.stderr.contains("--permits 4"), "{refused:?}");
    assert_eq!(store.waiters("X"), 1);
    // Too few are returned: 3 of 2 are held.
    resize("2").expect(0);
    holders.remove(0).let_go().expect(0);
    eventually(Duration::from_secs(20), "one is returned", || numbers(store) == [1, 2, 3]);
    // Longer than the intervals at which a waiter asks.
    throughout(Duration::from_secs(7), || assert_eq!(store.waiters("X"), 1));
    holders.remove(0).let_go().expect(0);
    eventually(Duration::from_secs(20), "two are returned", || numbers(store) == [2, 3]);
    assert_eq!(store.waiters("X"), 1);
    holders.remove(0).let_go().expect(0);
    assert_eq!(number_of(store, &mut waiting[1], "e"), "0");
    store.redlock(&["run", "X", "-p", "2", "true"]).run().expect(75);
    for holder in waiting {
        holder.let_go().expect(0);
    }
    // The number ends with its use.
    store.redlock(&[&THREE[..], &["true"]].concat()).run().expect(0);
    store.redlock(&["run", "X", "true"]).run().expect(0);
    let alone = store.hold("X", &[]);
    assert!(resize("2").expect(78).stderr.contains("a lock without permits"));
    alone.let_go().expect(0);
}

/// A waiter is not left behind with a number that is too large now, also when nobody holds the lock when its turn comes.
pub fn a_waiter_that_is_too_heavy_learns_of_it(store: &Store) {
    let mut first = hold(store, "first", &[]);
    number_of(store, &mut first, "first");
    let heavy = store.redlock(&[&THREE[..], &["--take", "3", "--wait", "true"]].concat()).spawn();
    store.await_waiters("X", 1);
    let light = store.wait_in_line("X", "light", &["-p", "3", "--take", "2"]);
    store.await_waiters("X", 2);
    store.redlock(&["resize", "X", "--permits", "2"]).run().expect(0);
    let refused = heavy.finish().expect(78);
    assert!(refused.stderr.contains("a semaphore of 2"), "{refused:?}");
    first.let_go().expect(0);
    light.finish().expect(0);
    assert_eq!(store.order(), ["light"]);
}
