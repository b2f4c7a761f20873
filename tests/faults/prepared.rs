//! A waiter has its lease (etcd), and the next in line its session (ZooKeeper), before it has the lock: its job ends in the
//! time that the server counts from then on.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{Store, Witness, await_file};

/// Of this a lease may be a tenth old when the lock is granted; an older one is extended.
const TTL: &str = "15s";
const AGE: Duration = Duration::from_millis(1200);

/// The job that must not live on: it ignores the SIGTERM before its deadline.
const DEAF: [&str; 4] = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh"];

fn stopped_after_the_grant(store: &Store) {
    let witness = Witness::new();
    let run = |options: &[&str], job: &[String]| {
        let job: Vec<&str> = DEAF.into_iter().chain(job.iter().map(String::as_str)).collect();
        store.redlock(&[&["run", "-k", "X", "-q"], options, &["--"], &job].concat()).spawn()
    };
    let holder = store.hold("X", &[]);
    let next = run(&["--ttl", TTL, "--wait"], &witness.job("60"));
    store.await_waiters("X", 1);
    // The lease grows old.
    sleep(AGE);
    holder.let_go().expect(0);
    await_file(&witness.file("owner"));
    next.signal(Signal::SIGSTOP);
    let third = run(&["--wait", "5m"], &witness.job("0"));
    third.finish().expect(0);
    witness.assert_alone();
    next.signal(Signal::SIGCONT);
    assert_eq!(next.finish().code(), 79);
}

#[test]
fn on_etcd() {
    stopped_after_the_grant(&Store::etcd());
}

#[test]
fn on_zookeeper() {
    stopped_after_the_grant(&Store::zookeeper());
}
