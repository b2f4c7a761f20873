//! Whether a lock is free, without taking it.

use std::time::Duration;

use crate::harness::{Store, eventually};

pub fn an_exit_status_says_whether_it_is_free(store: &Store) {
    let is_free = |options: &[&str]| store.redlock(&[&["status", "--is-free"], options].concat()).run();
    let free = is_free(&["X"]).expect(0);
    assert!(free.stdout.starts_with("X ") && free.stdout.ends_with("free\n"), "{free:?}");
    let holder = store.hold("X", &[]);
    let held = is_free(&["X"]).expect(75);
    assert!(held.stdout.contains("held") && held.stderr.is_empty(), "{held:?}");
    for (options, code) in [(&["-q", "X"][..], 75), (&["-q", "Y"], 0), (&["-q", "Y", "X"], 75)] {
        let silent = is_free(options).expect(code);
        assert!(silent.stdout.is_empty() && silent.stderr.is_empty(), "{silent:?}");
    }
    holder.let_go().expect(0);
    eventually(Duration::from_secs(20), "it is free", || is_free(&["-q", "X"]).code() == 0);
}

/// All of the locks have to be free, and stay so.
pub fn a_wait_ends_with_the_lock_and_takes_nothing(store: &Store) {
    let holders = [store.hold("X", &[]), store.hold("Y", &[])];
    let gave_up = store.redlock(&["wait", "X", "--timeout", "300ms"]).run().expect(75);
    assert!(
        gave_up.stderr.contains("gave up after") && gave_up.stderr.contains("'X' is held by"),
        "{gave_up:?}"
    );
    let silent = store.redlock(&["wait", "-q", "X", "--timeout", "0"]).run().expect(75);
    assert_eq!(silent.stderr, "");
    let mut waits = store.redlock(&["wait", "-q", "X", "-k", "Y"]).spawn();
    let [first, second] = holders;
    first.let_go().expect(0);
    store.redlock(&["wait", "-q", "X"]).run().expect(0);
    assert!(!waits.has_ended(), "the other lock is held");
    second.let_go().expect(0);
    waits.finish().expect(0);
    // Who waits so is nobody's waiter, and nobody's holder.
    for key in ["X", "Y"] {
        let lock = store.status(key);
        assert!(lock["holders"][0].is_null() && lock["waiters"][0].is_null(), "{lock}");
    }
}
