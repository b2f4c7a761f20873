//! `--one-of`: one lock of several.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{Redlock, Running, Store, eventually};
use crate::waiting::until_it_has_left;

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

const PHONES: [&str; 5] = ["-k", "phone-1", "-k", "phone-2", "--one-of"];

/// The key that a job was given.
const SHOW: [&str; 4] = ["--", "sh", "-c", "echo $REDLOCK_KEY"];

fn args<'a>(options: &[&'a str], job: &[&'a str]) -> Vec<&'a str> {
    [&["run"], &PHONES[..], options, job].concat()
}

/// A waiter for one of the phones that adds a line to the file "order".
fn wait_for_one(store: &Store, line: &str, options: &[&str]) -> Running {
    let order = store.folder.path("order");
    let script = "echo \"$0 $REDLOCK_KEY\" >> \"$1\"";
    let job = ["--", "sh", "-c", script, line, order.to_str().expect("a path")];
    store.redlock(&args(&[&["--wait"], options].concat(), &job)).spawn()
}

pub fn whichever_is_free_is_taken(store: &Store) {
    let key = || store.redlock(&args(&[], &SHOW)).run().expect(0).stdout;
    assert_eq!(key(), "phone-1\n");
    let first = store.hold("phone-1", &[]);
    assert_eq!(key(), "phone-2\n");
    let second = store.hold("phone-2", &[]);
    let refused = store.redlock(&args(&[], &SHOW)).run().expect(75);
    assert!(refused.stderr.contains("is held by "), "{refused:?}");
    first.let_go().expect(0);
    assert_eq!(key(), "phone-1\n");
    second.let_go().expect(0);
    for phone in ["phone-1", "phone-2"] {
        assert_eq!(store.redlock(&["status", "--is-free", phone]).run().code(), 0);
    }
}

/// The request stands in both queues, behind who came before, and leaves both with the grant.
pub fn first_come_first_served_over_all_of_them(store: &Store) {
    let (first, second) = (store.hold("phone-1", &[]), store.hold("phone-2", &[]));
    let mut waiters = vec![store.wait_in_line("phone-1", "alone phone-1", &[])];
    store.await_waiters("phone-1", 1);
    waiters.push(wait_for_one(store, "a", &[]));
    store.await_waiters("phone-1", 2);
    store.await_waiters("phone-2", 1);
    waiters.push(wait_for_one(store, "b", &[]));
    store.await_waiters("phone-2", 2);
    waiters.push(store.wait_in_line("phone-2", "alone phone-2", &[]));
    store.await_waiters("phone-2", 3);
    second.let_go().expect(0);
    eventually(Duration::from_secs(60), "three are served", || store.order().len() == 3);
    assert_eq!(store.order(), ["a phone-2", "b phone-2", "alone phone-2"]);
    store.await_waiters("phone-1", 1);
    first.let_go().expect(0);
    waiters.into_iter().for_each(|waiter| drop(waiter.finish().expect(0)));
    assert_eq!(store.order()[3..], ["alone phone-1"]);
}

pub fn a_dead_waiter_for_one_of_them_is_skipped(store: &Store) {
    let (first, second) = (store.hold("phone-1", &[]), store.hold("phone-2", &[]));
    let dead = wait_for_one(store, "dead", &[]);
    store.await_waiters("phone-2", 1);
    let next = wait_for_one(store, "next", &[]);
    store.await_waiters("phone-2", 2);
    dead.signal(Signal::SIGKILL);
    dead.finish().expect(-9);
    first.let_go().expect(0);
    next.finish().expect(0);
    assert_eq!(store.order(), ["next phone-1"]);
    second.let_go().expect(0);
}

pub fn giving_up_on_all_of_them_leaves_nothing(store: &Store) {
    let (first, second) = (store.hold("phone-1", &[]), store.hold("phone-2", &[]));
    store.redlock(&args(&["--wait=1s"], &SHOW)).run().expect(75);
    until_it_has_left(|| {
        store.await_waiters("phone-1", 0);
        let waiter = wait_for_one(store, "stopped", &[]);
        store.await_waiters("phone-1", 1);
        waiter.signal(Signal::SIGTERM);
        let ended = waiter.finish().expect(-15);
        (store.waiters("phone-1") + store.waiters("phone-2"), ended)
    });
    first.let_go().expect(0);
    second.let_go().expect(0);
}

/// By hand, also under a keeper, which keeps that one alone.
pub fn by_hand_it_is_one(store: &Store) {
    let first = store.hold("phone-1", &[]);
    let acquire = [&["acquire", "--format", "json"], &PHONES[..]].concat();
    let shown = store.redlock(&acquire).run().expect(0).stdout;
    let acquired: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(acquired["locks"][0]["key"], "phone-2", "{shown}");
    let token = acquired["token"].as_str().expect("a token").to_owned();
    store.redlock(&["release", "phone-2"]).env("REDLOCK_TOKEN", token).run().expect(0);
    let phones = PHONES.join(" ");
    let script = format!(
        "eval \"$(\"$0\" acquire {phones} --while-pid $$ --format env)\"; echo $REDLOCK_KEY; \"$0\" status -q --is-free phone-2; echo $?"
    );
    let kept = store.reached_by(Redlock::under("bash", &["-c", &script, PROGRAM])).run().expect(0);
    assert_eq!(kept.stdout.lines().collect::<Vec<_>>(), ["phone-2", "75"], "{kept:?}");
    let is_free = || store.redlock(&["status", "--is-free", "phone-2"]).run().code() == 0;
    eventually(Duration::from_secs(30), "the keeper ends with its script", is_free);
    first.let_go().expect(0);
}
