//! redlock and other implementations of the Redlock algorithm, on the same servers.

use std::time::Duration;

use crate::harness::{Store, eventually};
use crate::peer::{Kind, NODE_REDLOCK, RSLOCK};

#[test]
fn node_redlock_votes_alike() {
    votes_alike(&NODE_REDLOCK);
}

#[test]
fn rslock_votes_alike() {
    votes_alike(&RSLOCK);
}

/// Each is refused while the other holds the lock, and gets it afterwards.
fn votes_alike(peer: &Kind) {
    let store = Store::quorum3();
    let mut peer = peer.start_on(&store.members, 20);
    for _ in 0..5 {
        assert!(peer.take());
        let refused = store.redlock(&["run", "--key", "X", "--", "echo", "ran"]).run().expect(75);
        assert!(refused.line().contains("held by another program"), "{refused:?}");
        let waiter = store.redlock(&["run", "--key", "X", "--wait", "--", "cat"]).open_stdin().spawn();
        store.await_waiters("X", 1);
        assert!(peer.release());
        eventually(Duration::from_secs(5), "the lock of redlock", || {
            store.status("X")["holders"][0]["pid"].as_i64() == Some(waiter.pid().into())
        });
        assert!(!peer.take());
        waiter.let_go().expect(0);
    }
}
