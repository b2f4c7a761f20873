//! Two programs on one key exclude each other, both ways.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Redis, Store, Witness, eventually};
use crate::peer::Kind;

pub fn redlock_waits_for_the_peer(kind: &Kind) {
    let store = Store::redis();
    let mut peer = kind.start(server(&store), 30);
    assert!(peer.take());
    let refused = store.redlock(&["run", "--key", kind.key, "--", "echo", "ran"]).run().expect(75);
    assert_eq!(refused.stdout, "");
    assert!(refused.line().contains("is held by another program"), "{refused:?}");
    let shown = &store.status(kind.key)["holders"][0];
    assert_eq!(shown["foreign"], true);
    assert!(shown["left_ms"].as_u64().is_some_and(|left| (1..=30_000).contains(&left)), "{shown}");

    let waiter = store.wait_in_line(kind.key, "ran", &[]);
    store.await_waiters(kind.key, 1);
    assert!(store.order().is_empty());
    assert!(peer.release());
    waiter.finish().expect(0);
    assert_eq!(store.order(), ["ran"]);
}

pub fn the_peer_waits_for_redlock(kind: &Kind) {
    let store = Store::redis();
    let mut peer = kind.start(server(&store), 30);
    let holder = store.hold(kind.key, &[]);
    assert!(!peer.take());
    holder.let_go().expect(0);
    assert!(peer.take());
    store.redlock(&["run", "--key", kind.key, "--", "true"]).run().expect(75);
    assert!(peer.release());
}

/// It is told, and does not wait for the end of a lease.
pub fn a_peer_that_waits_is_told(kind: &Kind) {
    let store = Store::redis();
    let mut peer = kind.start(server(&store), 60);
    let holder = store.hold(kind.key, &["--ttl", "5m"]);
    let start = thread::scope(|scope| {
        let waiting = scope.spawn(|| peer.wait());
        eventually(Duration::from_secs(20), "the peer waits", || {
            server(&store).cli(&["info", "clients"]).contains("blocked_clients:1")
        });
        let start = Instant::now();
        holder.let_go().expect(0);
        assert!(waiting.join().expect("the peer"));
        start
    });
    assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
    assert!(peer.release());
}

/// The peer was slower than its lease: what it gives back is not its own any more.
pub fn a_late_release_of_the_peer_does_nothing(kind: &Kind) {
    let store = Store::redis();
    let mut peer = kind.start(server(&store), 1);
    assert!(peer.take());
    let holder = store.hold(kind.key, &["--wait", "20s"]);
    let token = server(&store).cli(&["get", kind.key]);
    peer.release();
    assert_eq!(server(&store).cli(&["get", kind.key]), token);
    store.redlock(&["check", "--key", kind.key, "--token", &token]).run().expect(0);
    holder.let_go().expect(0);
}

/// Five of each, for some seconds.
pub fn they_never_meet(kind: &Kind) {
    const EACH: usize = 5;
    let store = Store::redis();
    let witness = Witness::new();
    let job = witness.job("0.005");
    let (of_redlock, of_peer) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (end, limit) = (Instant::now() + Duration::from_secs(5), Instant::now() + Duration::from_secs(30));
    let is_over = || {
        let both_got_in = of_redlock.load(Ordering::Relaxed) > 0 && of_peer.load(Ordering::Relaxed) > 0;
        Instant::now() >= if both_got_in { end } else { limit }
    };
    thread::scope(|scope| {
        for _ in 0..EACH {
            scope.spawn(|| {
                let job: Vec<&str> = job.iter().map(String::as_str).collect();
                let args = [&["run", "--key", kind.key, "--wait", "5s", "--quiet", "--"][..], &job].concat();
                while !is_over() {
                    let start = Instant::now();
                    let ended = store.redlock(&args).run();
                    assert!([0, 75].contains(&ended.code()), "{ended:?}");
                    of_redlock.fetch_add(usize::from(ended.code() == 0), Ordering::Relaxed);
                    // Those in line hand the lock to each other; the peer, which only asks, needs a gap.
                    let pause = start.elapsed().mul_f64(10.0 * fastrand::f64());
                    thread::sleep(pause.min(Duration::from_secs(1)));
                }
            });
            scope.spawn(|| {
                let mut peer = kind.start(server(&store), 30);
                while !is_over() {
                    if peer.take() {
                        assert!(Command::new(&job[0]).args(&job[1..]).status().expect("a job").success());
                        assert!(peer.release());
                        of_peer.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(fastrand::u64(..20)));
                }
            });
        }
    });
    println!(
        "{} acquisitions of redlock, {} of the peer",
        of_redlock.load(Ordering::Relaxed),
        of_peer.load(Ordering::Relaxed)
    );
    witness.assert_alone();
    assert_eq!(witness.entries(), of_redlock.into_inner() + of_peer.load(Ordering::Relaxed));
    assert!(witness.entries() > of_peer.load(Ordering::Relaxed), "redlock never got in");
    assert!(of_peer.into_inner() > 0, "the peer never got in");
}

fn server(store: &Store) -> &Redis {
    store.redis.as_ref().expect("Redis")
}
