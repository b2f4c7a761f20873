//! Waiting in line.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{End, Finished, Running, Store, eventually, fits, in_ms, slowed, within};

pub fn first_come_first_served(store: &Store) {
    // In etcd and ZooKeeper a place is over after three seconds without a sign of life, and a machine may keep a waiter from
    // the processor for that long.
    // In PostgreSQL the claim of a waiter that was woken ends after three seconds as well.
    let tries = if store.counts_in_seconds() || store.url.starts_with("postgres:") { 3 } else { 1 };
    for count in [1, 20, 100] {
        assert!((0..tries).any(|_| are_served_in_order(store, count)), "{count} waiters");
    }
}

fn are_served_in_order(store: &Store, count: usize) -> bool {
    let holder = store.hold("X", &[]);
    let (mut expected, before) = (Vec::new(), store.order().len());
    let waiters: Vec<Running> = (1..=count)
        .map(|place| {
            let name = format!("{place} of {count}");
            let waiter = store.wait_in_line("X", &name, &[]);
            expected.push(name);
            store.await_waiters("X", place);
            waiter
        })
        .collect();
    holder.let_go().expect(0);
    for waiter in waiters {
        waiter.finish().expect(0);
    }
    let order = &store.order()[before..];
    println!("{order:?}");
    order == expected
}

/// Nobody joins a line of as many waiters as `--queue-limit` allows, and who is refused leaves no place.
pub fn a_full_queue_takes_no_more(store: &Store) {
    let holder = store.hold("X", &[]);
    let mut waiters = vec![store.wait_in_line("X", "first", &["--queue-limit", "1"])];
    store.await_waiters("X", 1);
    waiters.push(store.wait_in_line("X", "second", &["--queue-limit", "2"]));
    store.await_waiters("X", 2);
    let refused = store.wait_in_line("X", "refused", &["--queue-limit", "2"]).finish();
    let said = &refused.expect(75).stderr;
    assert!(said.contains("; 2 in line already, as many as --queue-limit lets wait"), "{said}");
    waiters.push(store.wait_in_line("X", "third", &["--queue-limit", "3"]));
    store.await_waiters("X", 3);
    holder.let_go().expect(0);
    for waiter in waiters {
        waiter.finish().expect(0);
    }
    assert_eq!(store.order(), ["first", "second", "third"]);
}

/// Others ask all the time while the lock is given back.
pub fn nobody_overtakes_a_waiter(store: &Store) {
    for round in 0..5 {
        let holder = store.hold("X", &[]);
        let waiter = store.wait_in_line("X", "waiter", &[]);
        store.await_waiters("X", 1);
        let served = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !served.load(Ordering::Relaxed) {
                        let order = store.folder.path("order").display().to_string();
                        let pushy = ["run", "--key", "X", "--", "sh", "-c", "echo pushy >> \"$0\"", &order];
                        store.redlock(&pushy).run();
                    }
                });
            }
            let _served = End(&served);
            holder.let_go().expect(0);
            waiter.finish().expect(0);
        });
        assert_eq!(store.order()[0], "waiter", "in round {round}");
        fs::remove_file(store.folder.path("order")).expect("the order");
    }
}

/// The waiter is slow, so that others are sure to ask before it does.
pub fn nobody_overtakes_a_waiter_when_a_lease_ends(store: &Store) {
    let mut tries = (0..30).map(|number| format!("X{number}"));
    assert!(tries.any(|key| is_not_overtaken(store, &key)), "this machine is always too slow");
}

/// A waiter is stopped, so that it cannot confirm what the end of a lease gives it: for as long as a claim lasts nobody else
/// gets the lock. `false` when one did, and this machine took longer than that.
fn is_not_overtaken(store: &Store, key: &str) -> bool {
    let (ttl, claim) = (Duration::from_secs(3), Duration::from_secs(2));
    let lease = ["--key", key, "--ttl", "3s"];
    let token = store.redlock(&[&["acquire"][..], &lease].concat()).run().expect(0).stdout;
    let waiter = store.wait_in_line(key, key, &[]);
    let (mut renewed, mut is_held) = ([Instant::now(); 2], true);
    eventually(Duration::from_secs(20), "the waiter is in line", || {
        let before = Instant::now();
        is_held =
            store.redlock(&[&["renew", "--token", token.trim()][..], &lease].concat()).run().code() == 0;
        renewed = [before, Instant::now()];
        !is_held || store.waiters(key) == 1
    });
    if !is_held {
        return false;
    }
    let [earliest_end, latest_end] = renewed.map(|at| at + ttl);
    // In etcd and ZooKeeper a waiter that is stopped keeps its place for as long as the claim lasts elsewhere.
    let last_second = if store.counts_in_seconds() { Duration::from_secs(1) } else { ttl };
    thread::sleep((latest_end - last_second).saturating_duration_since(Instant::now()));
    waiter.signal(Signal::SIGSTOP);
    thread::sleep(latest_end.saturating_duration_since(Instant::now()));
    loop {
        // Some stores end a lease some time after its TTL.
        let has_ended = store.status(key)["holders"].as_array().is_none_or(Vec::is_empty);
        let newcomers = [&["run", "--key", key, "--", "true"][..], &["acquire", "--key", key]]
            .map(|args| store.redlock(args).spawn())
            .map(Running::finish);
        let is_late = earliest_end.elapsed() > claim;
        let codes = newcomers.each_ref().map(Finished::code);
        // One that had too little of the processor for its last sign of life has lost its place there.
        let has_no_place = || store.counts_in_seconds() && store.waiters(key) == 0;
        if codes != [75, 75] && (is_late || has_no_place()) {
            return false;
        }
        assert_eq!(codes, [75, 75], "{newcomers:?}");
        if has_ended || is_late {
            break;
        }
    }
    waiter.signal(Signal::SIGCONT);
    waiter.finish().expect(0);
    assert_eq!(store.order().last().map(String::as_str), Some(key));
    true
}

pub fn giving_up_leaves_nothing(store: &Store) {
    let holder = store.hold("X", &[]);
    let start = Instant::now();
    // Long enough for a place in the queue on a busy machine.
    let limit = slowed(2000);
    store.redlock(&["run", "--key", "X", "--wait", &in_ms(limit), "--", "echo", "ran"]).run().expect(75);
    let waited = start.elapsed();
    let (least, most) = (limit, limit + Duration::from_secs(4));
    assert!(waited >= least && fits(waited, most), "waited {waited:?}");
    assert_eq!(store.waiters("X"), 0);
    holder.let_go().expect(0);
}

/// A waiter that gives up leaves no place behind, or says that it could not. It has a second for that, which is not enough on a
/// busy machine: then another one gives up.
pub fn until_it_has_left(mut gives_up: impl FnMut() -> (usize, Finished)) {
    eventually(Duration::from_secs(90), "one who has left", || {
        let (places, ended) = gives_up();
        let has_left = !ended.stderr.contains("could not release");
        assert!(places == 0 || !has_left, "{places} places are left: {ended:?}");
        has_left
    });
}

pub fn a_signal_ends_the_wait(store: &Store) {
    let holder = store.hold("X", &[]);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        until_it_has_left(|| {
            store.await_waiters("X", 0);
            let waiter = store.wait_in_line("X", "ran", &[]);
            store.await_waiters("X", 1);
            waiter.signal(signal);
            let start = Instant::now();
            let ended = waiter.finish();
            assert_eq!(ended.code(), -(signal as i32));
            within(Duration::from_secs(2), start);
            (store.waiters("X"), ended)
        });
    }
    holder.let_go().expect(0);
    eventually(Duration::from_secs(5), "the lock is free", || store.status("X")["holders"][0].is_null());
    assert!(store.order().is_empty());
}
