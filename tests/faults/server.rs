//! The Redis server dies, hangs, forgets, or is cut off, while a job runs and another waits.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Fault, Proxy, Redis, Redlock, Store, Witness, eventually};
use crate::takeover::Takeover;

fn redis(scene: &mut Takeover) -> &mut Redis {
    scene.store.redis.as_mut().expect("a scene on Redis")
}

/// The job is dead by the fence, and the second gets in when the server goes on.
#[test]
fn hung() {
    let mut scene = Takeover::new(Store::redis());
    scene.fault(|scene| redis(scene).pause());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    redis(&mut scene).resume();
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("lost 'X'"), "{first:?}");
}

#[test]
fn killed_for_good() {
    let mut scene = Takeover::new(Store::redis());
    scene.fault(|scene| redis(scene).kill());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    redis(&mut scene).restart();
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// The connection of the first one is stalled: half open.
#[test]
fn stalled() {
    let store = Store::redis();
    let proxy = Proxy::to(store.redis.as_ref().map_or(0, |redis| redis.port));
    let mut scene = Takeover::through(store, proxy.url());
    scene.fault(|_| proxy.set(Fault::Stall));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn overwritten_by_another_token() {
    let mut scene = Takeover::new(Store::redis());
    scene.fault(|scene| {
        let lease = (scene.ttl * 5 / 6).as_millis().to_string();
        redis(scene).cli(&["SET", "X", "another", "PX", &lease]);
    });
    scene.await_death(scene.ttl);
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("held by another program"), "{first:?}");
}

/// A key that only held for a moment: the first heals or loses its lock, the second does not slip in.
#[test]
fn overwritten_for_a_moment() {
    let mut scene = Quiet::new(&[]);
    scene.redis().cli(&["SET", "X", "another", "PX", "50"]);
    scene.goes_on_healed();
}

#[test]
fn flushed() {
    let mut scene = Quiet::new(&[]);
    scene.redis().cli(&["FLUSHALL"]);
    scene.goes_on_healed();
}

#[test]
fn key_deleted() {
    let mut scene = Quiet::new(&[]);
    scene.redis().cli(&["DEL", "X"]);
    scene.goes_on_healed();
}

#[test]
fn restarted_empty() {
    let mut scene = Quiet::new(&[]);
    scene.redis().kill();
    scene.redis().restart();
    scene.goes_on_healed();
}

#[test]
fn restarted_with_its_data() {
    let mut scene = Quiet::new(&["--appendonly", "yes", "--appendfsync", "always"]);
    scene.redis().kill();
    scene.redis().restart();
    scene.goes_on();
}

#[test]
fn connections_cut() {
    let mut scene = Quiet::new(&[]);
    scene.redis().cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    scene.redis().cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    scene.goes_on();
}

#[test]
fn scripts_forgotten() {
    let mut scene = Quiet::new(&[]);
    scene.redis().cli(&["SCRIPT", "FLUSH"]);
    scene.goes_on();
}

/// With other fencing tokens granted since, a lock that is gone is lost, not healed.
#[test]
fn gone_and_granted_to_another_since() {
    let mut scene = Takeover::new(Store::redis());
    // It would find the lock free, and may ask before the first one does.
    scene.second.signal(Signal::SIGSTOP);
    scene.fault(|scene| {
        redis(scene).cli(&["HSET", "redlock:{X}:state", "fence", "9000000000000000"]);
        redis(scene).cli(&["SET", "redlock:{X}:lease:X", "0 0 0 another {}"]);
        redis(scene).cli(&["DEL", "X"]);
    });
    scene.await_death(scene.ttl + Duration::from_secs(1));
    scene.second.signal(Signal::SIGCONT);
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// A job that the fault must not stop, of a holder that must go on, and a second one in line.
struct Quiet {
    store: Store,
    witness: Witness,
    first: crate::harness::Running,
    second: crate::harness::Running,
}

impl Quiet {
    fn new(args: &[&str]) -> Quiet {
        let mut store = Store::redis();
        store.redis = Some(Redis::with(args));
        store.url = store.redis.as_ref().map(Redis::url).unwrap_or_default();
        let witness = Witness::new();
        // Beyond one TTL, so that a lock that was not healed would be the second one's before the end. The second one asks
        // when that lease ends, or 5 s after it asked last: this TTL leaves a late renewal the most time before.
        let (long, short) = (witness.job("7"), witness.job("0"));
        let run = |options: &[&str], job: &[String]| {
            let mut args = options.to_vec();
            args.extend(job.iter().map(String::as_str));
            Redlock::new(&args).server(&store.url).spawn()
        };
        let first = run(&["run", "--key", "X", "--ttl", "5s", "--"], &long);
        eventually(Duration::from_secs(20), "the first job", || witness.is_occupied());
        let second = run(&["run", "--key", "X", "--wait", "5m", "--ttl", "5s", "--"], &short);
        store.await_waiters("X", 1);
        Quiet { store, witness, first, second }
    }

    fn redis(&mut self) -> &mut Redis {
        self.store.redis.as_mut().expect("a scene on Redis")
    }

    /// The first ends well, then the second, and they did not meet.
    #[track_caller]
    fn goes_on(self) -> String {
        let first = self.first.finish().expect(0);
        self.second.finish().expect(0);
        self.witness.assert_alone();
        assert_eq!(self.witness.entries(), 2);
        first.stderr
    }

    #[track_caller]
    fn goes_on_healed(self) {
        let stderr = self.goes_on();
        assert!(stderr.contains("'X' was gone from the store, for at most"), "{stderr}");
    }
}

/// One of two locks cannot be renewed: the other one is.
#[test]
fn one_of_two_is_refused() {
    let store = Store::with_user("locks on >PASSWORD ~?* &* +@all");
    let redis = store.redis.as_ref().expect("a Redis");
    let args = ["run", "-k", "A", "-k", "B", "--ttl", "3s", "--on-lost", "continue", "--", "cat"];
    let run = store.redlock(&args).open_stdin().spawn();
    eventually(Duration::from_secs(20), "both are held", || {
        ["A", "B"].iter().all(|key| !redis.cli(&["get", key]).is_empty())
    });
    let token = redis.cli(&["get", "B"]);
    redis.cli(&["acl", "setuser", "locks", "resetkeys", "~*B*"]);
    eventually(Duration::from_secs(10), "A runs out", || redis.cli(&["get", "A"]).is_empty());
    // For longer than a TTL.
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        assert_eq!(redis.cli(&["get", "B"]), token);
    }
    let run = run.let_go();
    assert!(run.stderr.contains("'A'") && !run.stderr.contains("'B'"), "{run:?}");
}
