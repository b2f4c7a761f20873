//! Waiting in line.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{End, Running, Store, eventually, fits, within};

pub fn first_come_first_served(store: &Store) {
    let mut expected = Vec::new();
    for count in [1, 20, 100] {
        let holder = store.hold("X", &[]);
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
        assert_eq!(store.order(), expected);
    }
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
    // Who is silent for 10 s is passed over: a machine that needs as long has another try.
    assert!(["X", "Y", "Z"].into_iter().any(|key| is_not_overtaken(store, key)), "always too slow");
}

/// `false` when it took too long to tell.
fn is_not_overtaken(store: &Store, key: &str) -> bool {
    let lease = ["--key", key, "--ttl", "3s"];
    let token = store.redlock(&[&["acquire"][..], &lease].concat()).run().expect(0).stdout;
    let start = Instant::now();
    let waiter = store.wait_in_line(key, key, &[]);
    let mut is_held = true;
    eventually(Duration::from_secs(20), "the waiter is in line", || {
        let renewed = store.redlock(&[&["renew", "--token", token.trim()][..], &lease].concat()).run();
        is_held = renewed.code() == 0;
        !is_held || store.waiters(key) == 1
    });
    if !is_held {
        return false;
    }
    waiter.signal(Signal::SIGSTOP);
    eventually(Duration::from_secs(15), "the end of the lease", || store.status(key)["holders"][0].is_null());
    let run = store.redlock(&["run", "--key", key, "--", "true"]).run();
    let acquired = store.redlock(&["acquire", "--key", key]).run();
    if start.elapsed() > Duration::from_secs(9) {
        return false;
    }
    assert_eq!((run.code(), acquired.code()), (75, 75), "{run:?} {acquired:?}");
    waiter.signal(Signal::SIGCONT);
    waiter.finish().expect(0);
    assert_eq!(store.order().last().map(String::as_str), Some(key));
    true
}

pub fn giving_up_leaves_nothing(store: &Store) {
    let holder = store.hold("X", &[]);
    let start = Instant::now();
    store.redlock(&["run", "--key", "X", "--wait", "1s", "--", "echo", "ran"]).run().expect(75);
    let waited = start.elapsed();
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(5));
    assert!(waited >= least && fits(waited, most), "waited {waited:?}");
    assert_eq!(store.waiters("X"), 0);
    holder.let_go().expect(0);
}

pub fn a_signal_ends_the_wait(store: &Store) {
    let holder = store.hold("X", &[]);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let waiter = store.wait_in_line("X", "ran", &[]);
        store.await_waiters("X", 1);
        waiter.signal(signal);
        let start = Instant::now();
        assert_eq!(waiter.finish().code(), -(signal as i32));
        within(Duration::from_secs(2), start);
        assert_eq!(store.waiters("X"), 0);
    }
    holder.let_go().expect(0);
    eventually(Duration::from_secs(5), "the lock is free", || store.status("X")["holders"][0].is_null());
    assert!(store.order().is_empty());
}
