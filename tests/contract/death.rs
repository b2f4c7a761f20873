//! A holder or a waiter dies.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Redlock, Store, in_ms, pid_in, slowed, within};

pub fn a_dead_waiter_is_skipped(store: &Store) {
    let holder = store.hold("X", &[]);
    let mut waiters: Vec<_> = (1..=4)
        .map(|place| {
            let waiter = store.wait_in_line("X", &place.to_string(), &[]);
            store.await_waiters("X", place);
            waiter
        })
        .collect();
    // The first, and one in the middle.
    for place in [2, 0] {
        let dead = waiters.remove(place);
        dead.signal(Signal::SIGKILL);
        dead.finish().expect(-9);
    }
    let start = Instant::now();
    holder.let_go().expect(0);
    for waiter in waiters {
        waiter.finish().expect(0);
    }
    // Less than a claim window, and than the poll that finds out what no wake-up told.
    within(store.until_a_dead_waiter_is_passed_over(), start);
    assert_eq!(store.order(), ["2", "4"]);
}

/// Who waits for a lock to keep it by hand is a process, too.
pub fn a_dead_waiter_of_acquire_is_skipped(store: &Store) {
    let holder = store.hold("X", &[]);
    let dead = [1, 2].map(|place| {
        let waiter = store.redlock(&["acquire", "--key", "X", "--wait"]).spawn();
        store.await_waiters("X", place);
        waiter
    });
    let waiter = store.wait_in_line("X", "alive", &[]);
    store.await_waiters("X", 3);
    for waiter in dead {
        waiter.signal(Signal::SIGKILL);
        waiter.finish().expect(-9);
    }
    let start = Instant::now();
    holder.let_go().expect(0);
    waiter.finish().expect(0);
    within(store.until_a_dead_waiter_is_passed_over(), start);
}

/// A minute where the store sees a death at once, else as long as this on an idle machine: a busy one can renew it.
fn a_lease(store: &Store, millis: u64) -> Duration {
    if store.is_local() {
        Duration::from_secs(60)
    } else {
        store.lease(slowed(millis).min(Duration::from_secs(10)))
    }
}

/// How long the death of a holder with this lease may go unseen.
fn until_seen(store: &Store, lease: Duration) -> Duration {
    match store {
        store if store.is_local() => Duration::from_secs(2),
        // It looks for leases that have ended twice a second.
        store if store.is_etcd() => lease + Duration::from_secs(1),
        // It looks once a tick, and counts in whole ones.
        store if store.is_zookeeper() => lease + Duration::from_secs(1),
        _ => lease,
    }
}

/// The second in line moves up, and has to notice the end of a holder that tells nobody.
pub fn who_moves_up_sees_the_holder_die(store: &Store) {
    let lease = a_lease(store, 3000);
    let holder = store.hold("X", &["--ttl", &in_ms(lease)]);
    let first = store.wait_in_line("X", "first", &[]);
    store.await_waiters("X", 1);
    let second = store.wait_in_line("X", "second", &[]);
    store.await_waiters("X", 2);
    let start = Instant::now();
    holder.signal(Signal::SIGKILL);
    first.signal(Signal::SIGTERM);
    first.finish().expect(-15);
    second.finish().expect(0);
    within(until_seen(store, lease) + Duration::from_millis(1200), start);
    assert_eq!(store.order(), ["second"]);
}

/// At once where the store can see the death, else when the lease has ended; in both cases after the job.
pub fn a_dead_holder_is_followed(store: &Store) {
    let lease = a_lease(store, 4000);
    let pid = store.folder.path("pid");
    let folder = store.folder.path("").display().to_string();
    let job = "cd \"$0\"; trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let mut holder =
        store.redlock(&["run", "--key", "X", "--ttl", &in_ms(lease), "--", "sh", "-c", job, &folder]).spawn();
    holder.await_file(&pid);
    pid_in(&pid);
    let next = "cd \"$0\"; read -r pid < pid; ! [ /proc/$pid/cwd -ef . ]";
    let waiter = store.redlock(&["run", "--key", "X", "--wait", "--", "sh", "-c", next, &folder]).spawn();
    store.await_waiters("X", 1);
    let start = Instant::now();
    holder.signal(Signal::SIGKILL);
    waiter.finish().expect(0);
    within(until_seen(store, lease) + Duration::from_secs(2), start);
    holder.finish().expect(-9);
}

pub fn deaths_while_taking_leave_the_store_usable(store: &Store) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let ttl = store.ttl(1000);
        let take =
            || -> Redlock { store.redlock(&["run", "--key", "X", "--wait", "--ttl", &ttl, "--", "true"]) };
        let (one, other) = (take().spawn(), take().spawn());
        thread::sleep(Duration::from_micros(random.u64(..25_000)));
        one.signal(Signal::SIGKILL);
        assert!([-9, 0].contains(&one.finish().code()));
        other.finish().expect(0);
    }
    let start = Instant::now();
    store.redlock(&["run", "--key", "X", "--wait", "5m", "--quiet", "--", "true"]).run().expect(0);
    within(Duration::from_secs(5), start);
    assert_eq!(store.waiters("X"), 0);
}
