//! The Redis server dies, hangs, forgets, or is cut off, while a job runs and another waits.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Fault, Proxy, Redis, Store, eventually, in_ms, slowed, throughout, ttl, within};
use crate::takeover::Takeover;
use crate::undisturbed::Undisturbed;

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

/// However long one may try to reach it.
#[test]
fn a_hung_server_holds_up_nobody_past_the_wait() {
    let store = Store::redis();
    store.redis.as_ref().expect("a Redis").pause();
    let start = Instant::now();
    let wait = ["run", "-k", "X", "--wait", "1s", "--connect-timeout", "60s", "--", "echo", "ran"];
    let gave_up = store.redlock(&wait).run().expect(69);
    within(Duration::from_secs(10), start);
    assert!(gave_up.stdout.is_empty(), "{gave_up:?}");
}

#[test]
fn killed_for_good() {
    let mut scene = Takeover::new(Store::redis());
    scene.fault(|scene| redis(scene).kill());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    redis(&mut scene).restart();
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// With so short a --kill-after the guard ends the job before the renewals are given up.
#[test]
fn a_loss_that_the_guard_sees_first_has_its_cause() {
    let mut store = Store::redis();
    let options = ["--ttl", &ttl(3000), "--kill-after", "10ms"];
    let holder = store.hold("X", &options);
    store.redis.as_mut().expect("a Redis").kill();
    let lost = holder.finish().expect(79);
    assert!(lost.line().contains("connection refused"), "{lost:?}");
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
    let mut scene = undisturbed(&[]);
    server(&mut scene).cli(&["SET", "X", "another", "PX", "50"]);
    goes_on_healed(scene);
}

#[test]
fn flushed() {
    let mut scene = undisturbed(&[]);
    server(&mut scene).cli(&["FLUSHALL"]);
    goes_on_healed(scene);
}

#[test]
fn key_deleted() {
    let mut scene = undisturbed(&[]);
    server(&mut scene).cli(&["DEL", "X"]);
    goes_on_healed(scene);
}

#[test]
fn restarted_empty() {
    let mut scene = undisturbed(&[]);
    server(&mut scene).kill();
    server(&mut scene).restart();
    goes_on_healed(scene);
}

#[test]
fn restarted_with_its_data() {
    let mut scene = undisturbed(&["--appendonly", "yes", "--appendfsync", "always"]);
    server(&mut scene).kill();
    server(&mut scene).restart();
    scene.goes_on();
}

#[test]
fn connections_cut() {
    let mut scene = undisturbed(&[]);
    server(&mut scene).cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    server(&mut scene).cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    scene.goes_on();
}

#[test]
fn scripts_forgotten() {
    let mut scene = undisturbed(&[]);
    server(&mut scene).cli(&["SCRIPT", "FLUSH"]);
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

/// Beyond one TTL, so that a lock that was not healed would be the second one's before the end. The second one asks when that
/// lease ends, or 5 s after it asked last: this TTL leaves a late renewal the most time before.
fn undisturbed(args: &[&str]) -> Undisturbed {
    Undisturbed::new(Store::of(Redis::with(args)), "7", &["--ttl", "5s"])
}

fn server(scene: &mut Undisturbed) -> &mut Redis {
    scene.store.redis.as_mut().expect("a scene on Redis")
}

#[track_caller]
fn goes_on_healed(scene: Undisturbed) {
    let [first, _] = scene.goes_on();
    assert!(first.stderr.contains("'X' was gone from the store, for at most"), "{first:?}");
}

/// One of two locks cannot be renewed: the other one is.
#[test]
fn one_of_two_is_refused() {
    let store = Store::with_user("locks on >PASSWORD ~?* &* +@all");
    let redis = store.redis.as_ref().expect("a Redis");
    let lease = slowed(3000);
    let args = ["run", "-k", "A", "-k", "B", "--ttl", &in_ms(lease), "--on-lost", "continue", "--", "cat"];
    let run = store.redlock(&args).open_stdin().spawn();
    eventually(Duration::from_secs(20), "both are held", || {
        ["A", "B"].iter().all(|key| !redis.cli(&["get", key]).is_empty())
    });
    let token = redis.cli(&["get", "B"]);
    redis.cli(&["acl", "setuser", "locks", "resetkeys", "~*B*"]);
    eventually(Duration::from_secs(10), "A runs out", || redis.cli(&["get", "A"]).is_empty());
    // For longer than a TTL.
    throughout(lease + Duration::from_secs(1), || assert_eq!(redis.cli(&["get", "B"]), token));
    let run = run.let_go();
    assert!(run.stderr.contains("'A'") && !run.stderr.contains("'B'"), "{run:?}");
}
