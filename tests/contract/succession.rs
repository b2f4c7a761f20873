//! The run that asks last goes first.

use std::time::Duration;

use crate::harness::{Store, eventually};

/// It sends home whoever came earlier with the same option, while the lock is held and when it is handed over.
pub fn the_last_one_supersedes(store: &Store) {
    let supersede = &["--supersede"];
    let holder = store.hold("X", &[]);
    let first = store.wait_in_line("X", "first", supersede);
    store.await_waiters("X", 1);
    let plain = store.wait_in_line("X", "plain", &[]);
    store.await_waiters("X", 2);
    let second = store.wait_in_line("X", "second", supersede);
    let by = second.pid();
    let told = first.finish().expect(75).stderr;
    assert!(told.contains("gave way for 'X' to ") && told.contains(&format!("(pid {by}")), "{told}");
    store.await_waiters("X", 2);
    let third = store.wait_in_line("X", "third", supersede);
    let third_pid = u64::try_from(third.pid()).expect("a pid");
    eventually(Duration::from_secs(60), "the third waits", || {
        let lock = store.status("X");
        lock["waiters"]
            .as_array()
            .is_some_and(|waiters| waiters.iter().any(|waiter| waiter["pid"] == third_pid))
    });
    holder.let_go().expect(0);
    plain.finish().expect(0);
    second.finish().expect(75);
    third.finish().expect(0);
    assert_eq!(store.order(), ["plain", "third"]);
}
