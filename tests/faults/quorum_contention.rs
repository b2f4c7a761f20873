//! Who waits in a quorum stands in no queue: it hears of a release, asks, and may meet others.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;

use crate::harness::{Redis, Running, Store, Witness, eventually, fits, within};
use crate::quorum::{held_on, run};

/// They divide the servers among themselves, so that nobody gets most.
#[test]
fn a_split_vote_ends() {
    let store = Store::quorum5();
    let witness = Witness::new();
    let job = witness.job("0");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    for _ in 0..5 {
        for (place, member) in store.members.iter().enumerate() {
            member.cli(&["set", "X", &format!("contender {}", place % 3), "px", "400"]);
        }
        let waiters: Vec<_> = (0..10).map(|_| run(&store, &["--wait", "5m", "-q"], &job).spawn()).collect();
        for waiter in waiters {
            waiter.finish().expect(0);
        }
    }
    witness.assert_alone();
    assert_eq!(witness.entries(), 50);
    // A release waits for the majority; the others carry it out.
    eventually(Duration::from_secs(5), "nothing is left", || held_on(&store.members, "X") == 0);
}

/// Nobody waits, and still somebody gets it.
#[test]
fn one_of_many_wins() {
    let store = Store::quorum(4, &[]);
    for _ in 0..5 {
        let mut many: Vec<_> = (0..8).map(|_| run(&store, &["-q"], &["cat"]).open_stdin().spawn()).collect();
        eventually(Duration::from_secs(20), "one that is left", || {
            many.iter_mut().map(Running::has_ended).filter(|ended| !ended).count() <= 1
        });
        let mut codes: Vec<i32> = many.into_iter().map(|one| one.let_go().code()).collect();
        codes.sort();
        assert_eq!(codes, [0, 75, 75, 75, 75, 75, 75, 75]);
    }
}

/// One hint is enough, also when other servers are silent.
#[test]
fn a_waiter_is_told() {
    let mut store = Store::quorum5();
    store.members[4].pause();
    let holder = store.hold("X", &["--ttl", "60s"]);
    let waiter = run(&store, &["--wait", "--ttl", "60s"], &["true"]).spawn();
    store.await_waiters("X", 1);
    store.members[0].kill();
    let start = Instant::now();
    holder.let_go().expect(0);
    waiter.finish().expect(0);
    within(Duration::from_secs(4), start);
}

/// Two grant it and one is still held: the votes of a dead server and of one that hangs are not waited for.
#[test]
fn a_divided_vote_is_not_held_up() {
    let mut store = Store::quorum5();
    store.members[0].kill();
    store.members[4].pause();
    store.members[3].cli(&["set", "X", "another's", "px", "500"]);
    let start = Instant::now();
    run(&store, &["--wait", "--ttl", "60s"], &["true"]).run().expect(0);
    within(Duration::from_secs(4), start);
}

/// It ends when a majority says so, and nobody is told.
#[test]
fn a_foreign_lease_is_followed_at_once() {
    const LEASE: Duration = Duration::from_millis(2500);
    let store = Store::quorum3();
    let mut late: Vec<Duration> = (0..5)
        .map(|_| {
            let set = |member: &Redis| {
                member.cli(&["set", "X", "somebody", "NX", "PX", &LEASE.as_millis().to_string()]);
                SystemTime::now() + LEASE
            };
            let ends: Vec<SystemTime> = store.members.iter().map(set).collect();
            let begun = run(&store, &["--wait"], &["date", "+%s%N"]).run().expect(0).stdout;
            let begun = Duration::from_nanos(begun.trim().parse().expect("a time"));
            (SystemTime::UNIX_EPOCH + begun).duration_since(ends[1]).unwrap_or_default()
        })
        .collect();
    late.sort();
    println!("{late:?}");
    // With the start of a process; what another one on this machine takes meets not most of them.
    assert!(fits(late[2], Duration::from_millis(150)), "{late:?}");
}

/// Each break is news to those who wait.
#[test]
fn every_break_is_heard() {
    let store = Store::quorum3();
    store.redlock(&["acquire", "--key", "X", "--ttl", "60s"]).run().expect(0);
    let wait = || run(&store, &["--wait", "--ttl", "60s"], &["cat"]).open_stdin().spawn();
    let (one, other) = (wait(), wait());
    store.await_waiters("X", 2);
    let holder = || store.status("X")["holders"][0]["pid"].as_i64().unwrap_or(0) as i32;
    let break_it = || {
        // The first time the holder is told, who does nothing.
        for _ in 0..2 {
            store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
        }
    };
    break_it();
    eventually(Duration::from_secs(4), "the next holder", || [one.pid(), other.pid()].contains(&holder()));
    let (first, last) = if holder() == one.pid() { (one, other) } else { (other, one) };
    first.signal(Signal::SIGKILL);
    first.finish().expect(-9);
    break_it();
    eventually(Duration::from_secs(4), "the last holder", || holder() == last.pid());
    last.let_go().expect(0);
}

/// Who holds one lock and waits for another asks for that one only. What it gives back in the end is both, also to
/// servers that still owe the answer to an earlier give-back.
#[test]
fn who_gives_up_tells_servers_that_hang_all_of_it() {
    let store = Store::quorum3();
    let holder = store.hold("b", &["--ttl", "60s"]);
    let wait =
        ["run", "--wait", "--ttl", "20s", "--connect-timeout", "1s", "-k", "a", "-k", "b", "--", "true"];
    let waiter = store.redlock(&wait).spawn();
    store.await_waiters("b", 1);
    let (awake, hung) = store.members.split_at(1);
    // Where it was not granted in time, the next renewal takes it.
    eventually(Duration::from_secs(20), "a is on both", || held_on(hung, "a") == 2);
    hung.iter().for_each(Redis::pause);
    let asked = || {
        let stats = awake[0].commandstats();
        ["eval", "evalsha"].map(|name| stats.get(name).copied().unwrap_or(0)).iter().sum::<u64>()
    };
    let before = asked();
    awake[0].cli(&["publish", "redlock:{b}:wake:quorum:b", "ask"]);
    // For b, and to give b back.
    eventually(Duration::from_secs(10), "it has asked", || asked() >= before + 2);
    waiter.signal(Signal::SIGTERM);
    waiter.finish().expect(-15);
    hung.iter().for_each(Redis::resume);
    eventually(Duration::from_secs(5), "a is free", || held_on(&store.members, "a") == 0);
    holder.let_go().expect(0);
}

/// An idle one asks once in a while.
#[test]
fn a_waiter_is_quiet() {
    let store = Store::quorum3();
    let holder = store.hold("X", &["--ttl", "60s"]);
    let waiter = run(&store, &["--wait", "--ttl", "60s"], &["true"]).spawn();
    store.await_waiters("X", 1);
    let asked = || store.members[0].commandstats().get("evalsha").copied().unwrap_or(0);
    // The first questions are over.
    let mut before = asked();
    eventually(Duration::from_secs(5), "it is idle", || {
        thread::sleep(Duration::from_millis(200));
        std::mem::replace(&mut before, asked()) == asked()
    });
    thread::sleep(Duration::from_secs(4));
    assert!(asked() - before <= 1, "{} times within 4 s", asked() - before);
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}
