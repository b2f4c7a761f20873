//! Machines that vanish: they say nothing any more, and their connections stay open.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Fault, Proxy, Redlock, Running, Store, eventually, fits};

/// The longest time without a holder, with the start and the end of a job.
const LONGEST: Duration = Duration::from_millis(3500);
/// Two intervals of a waiter and one more, likewise.
const LONGEST_ON_A_HOST: Duration = Duration::from_millis(15_500);

/// A line of waiters that are about to vanish, and one behind them that stays.
struct Line {
    store: Store,
    /// Of the holder, where it is not beside the server.
    holder_link: Proxy,
    link: Proxy,
    holder: Running,
    _vanishing: Vec<Running>,
    alive: Running,
}

impl Line {
    fn new(vanishing: usize, options: &[&str], holder_vanishes: bool) -> Line {
        let store = Store::redis();
        // The server learns the scripts.
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
        let port = store.redis.as_ref().expect("Redis").port;
        let (holder_link, link) = (Proxy::to(port), Proxy::to(port));
        let holder = match holder_vanishes {
            true => {
                let args = [&["run", "-k", "X", "--ttl", "6s"][..], options, &["--", "cat"]].concat();
                Redlock::new(&args).server(&holder_link.url()).open_stdin().spawn()
            }
            false => store.hold("X", options),
        };
        store.await_holder("X");
        let waiting = |place: usize| {
            let args = [&["acquire", "-k", "X", "--wait"], options].concat();
            let waiter = Redlock::new(&args).server(&link.url()).spawn();
            store.await_waiters("X", place);
            waiter
        };
        let vanishing = (1..=vanishing).map(waiting).collect::<Vec<_>>();
        let alive = store.wait_in_line("X", "alive", options);
        store.await_waiters("X", vanishing.len() + 1);
        Line { store, holder_link, link, holder, _vanishing: vanishing, alive }
    }

    fn owner(&self) -> String {
        self.store.redis.as_ref().expect("Redis").cli(&["get", "X"])
    }
}

/// The time from `start` until one of those in line has the lock.
fn assert_short(start: Instant, what: &str) {
    let took = start.elapsed();
    println!("{took:?} without a holder: {what}");
    assert!(fits(took, LONGEST), "{took:?} without a holder: {what}");
}

/// Too late for anybody to have missed one.
#[test]
fn a_line_that_vanished_costs_one_claim() {
    for options in [&[][..], &["--permits", "1"]] {
        let line = Line::new(8, options, false);
        line.link.set(Fault::Silence);
        let start = Instant::now();
        line.holder.let_go().expect(0);
        line.alive.finish().expect(0);
        assert_short(start, &format!("the first 8 in line vanished, {options:?}"));
    }
}

#[test]
fn a_line_that_vanished_with_the_holder_costs_one_claim() {
    let mut line = Line::new(8, &[], true);
    line.holder_link.set(Fault::Silence);
    line.link.set(Fault::Silence);
    eventually(Duration::from_secs(10), "the end of the lease", || line.owner().is_empty());
    let start = Instant::now();
    line.alive.finish().expect(0);
    assert_short(start, "the holder and the first 8 in line vanished");
    eventually(Duration::from_secs(10), "the end of the holder", || line.holder.has_ended());
}

/// It vanishes before it hears that it gave the lock back, and so cannot see to it that somebody got it.
#[test]
fn a_line_that_vanished_with_who_gave_the_lock_costs_one_claim() {
    for (vanishing, behind) in [(1, 0), (1, 3), (8, 0)] {
        let mut line = Line::new(vanishing, &[], true);
        let mut behind: Vec<Running> = (0..behind)
            .map(|place| {
                let waiter = line.store.wait_in_line("X", "behind", &[]);
                line.store.await_waiters("X", vanishing + place + 2);
                waiter
            })
            .collect();
        line.holder_link.set(Fault::Mute);
        line.link.set(Fault::Silence);
        let owner = line.owner();
        drop(line.holder.child.stdin.take());
        eventually(Duration::from_secs(10), "the handover", || {
            ![owner.as_str(), ""].contains(&line.owner().as_str())
        });
        let start = Instant::now();
        line.holder.signal(Signal::SIGKILL);
        line.alive.finish().expect(0);
        assert_short(start, &format!("who gave the lock and the first {vanishing} in line vanished"));
        behind.drain(..).for_each(|waiter| drop(waiter.finish().expect(0)));
    }
}

/// On a machine of its own that stands still, and killed: its connections end then.
#[test]
fn the_death_of_who_gets_the_lock_costs_one_claim() {
    for death in [Signal::SIGSTOP, Signal::SIGKILL] {
        let line = Line::new(1, &[], false);
        let head = &line._vanishing[0];
        // It was told, and does not know it.
        head.signal(Signal::SIGSTOP);
        let owner = line.owner();
        let mut holder = line.holder;
        drop(holder.child.stdin.take());
        eventually(Duration::from_secs(10), "the handover", || {
            line.store.redis.as_ref().expect("Redis").cli(&["get", "X"]) != owner
        });
        let start = Instant::now();
        head.signal(death);
        line.alive.finish().expect(0);
        assert_short(start, &format!("who got the lock met {death}"));
        head.signal(Signal::SIGKILL);
        holder.finish().expect(0);
    }
}

/// All but the last of the line, and the holder with its guard.
#[test]
fn a_line_that_is_killed_costs_the_lease() {
    let line = Line::new(8, &[], true);
    let owner = line.owner();
    let (holder, guard) = (line.holder.pid(), line.holder.guard());
    for pid in line._vanishing.iter().map(Running::pid).chain([holder, guard]) {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("its death");
    }
    eventually(Duration::from_secs(10), "the end of the lease", || line.owner() != owner);
    let start = Instant::now();
    line.alive.finish().expect(0);
    assert_short(start, "the holder and the first 8 in line were killed");
}

/// On one host nobody vanishes without a word but who is stopped, and that is seen in the end.
#[test]
fn a_line_that_is_stopped_on_this_host_costs_its_silence() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let stopped: Vec<Running> = (1..=6)
        .map(|place| {
            let waiter = store.wait_in_line("X", "stopped", &[]);
            store.await_waiters("X", place);
            waiter
        })
        .collect();
    let alive = store.wait_in_line("X", "alive", &[]);
    store.await_waiters("X", stopped.len() + 1);
    let all = |signal| stopped.iter().for_each(|waiter| waiter.signal(signal));
    // One that is stopped in the middle of a transaction keeps the file from all others: that is another matter.
    eventually(Duration::from_secs(60), "all are stopped, none of them within a transaction", || {
        all(Signal::SIGSTOP);
        let is_open = store.redlock(&["status", "X", "--connect-timeout", "2s"]).run().code() == 0;
        if !is_open {
            all(Signal::SIGCONT);
        }
        is_open
    });
    let start = Instant::now();
    holder.let_go().expect(0);
    alive.finish().expect(0);
    let took = start.elapsed();
    println!("{took:?} without a holder: the first 6 in line were stopped on local:");
    assert!(fits(took, LONGEST_ON_A_HOST), "{took:?}");
    all(Signal::SIGCONT);
    stopped.into_iter().for_each(|waiter| drop(waiter.finish().expect(0)));
}

/// They are out of the line while somebody still holds the lock.
#[test]
fn who_missed_two_intervals_is_passed_over() {
    let line = Line::new(4, &[], false);
    line.link.set(Fault::Silence);
    eventually(Duration::from_secs(30), "nobody waits but who is alive", || line.store.waiters("X") == 1);
    let start = Instant::now();
    line.holder.let_go().expect(0);
    line.alive.finish().expect(0);
    assert!(start.elapsed() < Duration::from_secs(2), "took {:?}", start.elapsed());
}

/// Who was cut off for a while has the place that it had.
#[test]
fn who_comes_back_has_its_place() {
    let line = Line::new(1, &[], false);
    line.link.set(Fault::Silence);
    eventually(Duration::from_secs(30), "nobody waits but who is alive", || line.store.waiters("X") == 1);
    line.link.set(Fault::None);
    eventually(Duration::from_secs(30), "both wait", || line.store.waiters("X") == 2);
    assert_eq!(line.store.status("X")["waiters"][1]["pid"], line.alive.pid());
}
