//! Machines that vanish: they say nothing any more, and their connections stay open.

use std::time::{Duration, Instant};

use crate::harness::{Fault, Proxy, Redlock, Running, Store, eventually};

/// The longest time without a holder, and what a busy machine may add.
const LONGEST: Duration = Duration::from_secs(3);
const SLACK: Duration = Duration::from_millis(2500);

/// A line of waiters that are about to vanish, and one behind them that stays.
struct Line {
    store: Store,
    link: Proxy,
    holder: Running,
    _vanishing: Vec<Running>,
    alive: Running,
}

impl Line {
    fn new(vanishing: usize, options: &[&str], holder_vanishes: bool) -> Line {
        let store = Store::redis();
        let link = Proxy::to(store.redis.as_ref().expect("Redis").port);
        let through_link = |args: &[&str]| Redlock::new(&[args, options].concat()).server(&link.url());
        let start = |redlock: Redlock| redlock.spawn();
        let job = ["--", "sleep", "60"];
        let holder = match holder_vanishes {
            true => {
                let mut args = vec!["run", "-k", "X", "--ttl", "6s"];
                args.extend(options);
                start(Redlock::new(&[&args[..], &job].concat()).server(&link.url()))
            }
            false => store.hold("X", options),
        };
        store.await_holder("X");
        let waiting = |place: usize| {
            let waiter = start(through_link(&["acquire", "-k", "X", "--wait"]));
            store.await_waiters("X", place);
            waiter
        };
        let vanishing = (1..=vanishing).map(waiting).collect::<Vec<_>>();
        let alive = store.wait_in_line("X", "alive", options);
        store.await_waiters("X", vanishing.len() + 1);
        Line { store, link, holder, _vanishing: vanishing, alive }
    }
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
        println!("{:?} without a holder, {options:?}", start.elapsed());
        assert!(start.elapsed() < LONGEST + SLACK, "took {:?}", start.elapsed());
    }
}

#[test]
fn a_line_that_vanished_with_the_holder_costs_one_claim() {
    let mut line = Line::new(8, &[], true);
    line.link.set(Fault::Silence);
    eventually(Duration::from_secs(10), "the end of the lease", || {
        line.store.redis.as_ref().expect("Redis").cli(&["exists", "X"]) == "0"
    });
    let start = Instant::now();
    line.alive.finish().expect(0);
    println!("{:?} without a holder", start.elapsed());
    assert!(start.elapsed() < LONGEST + SLACK, "took {:?}", start.elapsed());
    eventually(Duration::from_secs(10), "the end of the holder", || line.holder.has_ended());
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
    let [first, second] = [0, 1].map(|place| line.store.status("X")["waiters"][place]["pid"].clone());
    assert_eq!(first, line._vanishing[0].pid());
    assert_eq!(second, line.alive.pid());
}
