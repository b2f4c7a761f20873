//! The number of a permit: `REDLOCK_PERMIT`.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Running, Store, eventually};

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
