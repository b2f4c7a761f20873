//! Mutual exclusion, seen by the jobs themselves.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::harness::{Redlock, Rules, Running, Store, Witness, eventually, is_alive, is_within};

const WORKERS: usize = 50;
const ACQUISITIONS: usize = 2000;
/// A crowd that hangs; a busy machine may be ten times as slow as an idle one.
pub const LIMIT: Duration = Duration::from_secs(450);

/// `tests/run crowds` has all of them; otherwise one part in so many.
fn acquisitions(part: usize) -> usize {
    if env::var_os("TESTS_CROWDS").is_some() { ACQUISITIONS } else { ACQUISITIONS / part }
}

/// One redlock dies each second, the holder every other time.
pub fn fifty_workers_never_meet(store: &Store) {
    workers_never_meet(WORKERS, acquisitions(8), store, || holder(store));
}

/// One redlock dies each second, and keeps the others waiting until its lease ends: they wait most of the time.
pub fn twenty_workers_never_meet(store: &Store) {
    // Behind a pooler the dead are passed over later.
    let part = if store.is_pooled() { 40 } else { 10 };
    workers_never_meet(20, acquisitions(part), store, || None);
}

/// Every other time `victim` dies, if there is one, else anybody.
fn workers_never_meet(count: usize, acquisitions: usize, store: &Store, victim: impl Fn() -> Option<i32>) {
    let limit = if store.counts_in_seconds() || store.is_pooled() { LIMIT * 10 } else { LIMIT };
    let witness = Witness::new();
    let job = witness.job("0");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    let args =
        [&["run", "--key", "X", "--wait", "--ttl", store.shortest(), "--quiet", "--"][..], &job].concat();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    let crowd = Crowd::of(count);
    let mut kills = 0;
    crowd.work(
        |_| store.redlock(&args),
        || {
            while crowd.ends(0) < acquisitions && is_within(limit, start) {
                thread::sleep(Duration::from_secs(1));
                let victim = random.bool().then(&victim).flatten();
                kills += usize::from(crowd.kill(victim, &mut random));
            }
        },
    );
    let (took, granted, overlaps) = (start.elapsed(), crowd.ends(0), witness.overlaps());
    let ends = crowd.ends.lock().expect("the ends");
    println!(
        "{}: seed {seed}, {kills} kills, {granted} acquisitions, {} overlaps",
        store.url,
        overlaps.len()
    );
    println!("{took:?}; ends by exit status: {ends:?}");
    assert!(kills > 0, "nobody was killed");
    assert_eq!(overlaps, Vec::<String>::new());
    assert!(granted >= acquisitions, "no more than {granted} within {limit:?}");
    // On a busy host a grant may come too late (69), or a lease of one second end before its renewal (79).
    assert!(ends.keys().all(|end| [0, -9, 69, 79].contains(end)), "{ends:?}");
}

/// One of four is a writer. Nobody starves.
pub fn readers_and_writers_never_meet(store: &Store) {
    let roles = |place| match place % 4 {
        0 => ("writer", &["-k", "X"][..]),
        _ => ("reader", &["-k", "X", "--shared"][..]),
    };
    a_crowd_keeps_the_rules(store, &roles);
}

pub fn never_more_than_the_permits(store: &Store) {
    a_crowd_keeps_the_rules(store, &|_| ("permit", &["-k", "X", "--permits", "3"]));
}

/// Each job is alone with its number, as with a lock of its own.
pub fn never_two_with_one_number(store: &Store) {
    // A job that has no number, or one that is too high, fails.
    let number = "case $REDLOCK_PERMIT in [0-4]) ;; *) exit 9 ;; esac; alone=$REDLOCK_PERMIT";
    let numbers: Vec<String> = (0..5).map(|number| number.to_string()).collect();
    each_is_alone(store, number, &numbers, |_| &["-k", "X", "--permits", "5"]);
}

/// Jobs that want any of five devices, beside others that want one of them alone, two at once, or one of two first.
pub fn never_two_on_one_device(store: &Store) {
    const ALL: [&str; 11] = ["--one-of", "-k", "d1", "-k", "d2", "-k", "d3", "-k", "d4", "-k", "d5"];
    let devices = ["d1", "d2", "d3", "d4", "d5"].map(str::to_owned);
    each_is_alone(store, "alone=$(echo \"$REDLOCK_KEY\" | head -n 1)", &devices, |place| match place % 5 {
        0 => &["-k", "d1"],
        1 => &["-k", "d2", "-k", "d4"],
        2 if place == 2 => &["--one-of", "-k", "d2", "-k", "d4", "--priority", "1"],
        2 => &["--one-of", "-k", "d2", "-k", "d4"],
        _ => &ALL,
    });
    for device in &devices {
        let is_free = || store.status(device)["holders"][0].is_null();
        eventually(Duration::from_secs(60), "no lock is left over", is_free);
    }
}

/// 20 workers, of whom one dies each second. Each job is alone among those with the same `$alone`, which `name` sets to one of
/// `names`.
fn each_is_alone(
    store: &Store,
    name: &str,
    names: &[String],
    options: impl Fn(usize) -> &'static [&'static str] + Sync,
) {
    let rules = Rules::new(1);
    let job = rules.job("writer", "0");
    // A folder for each name.
    let script = format!(
        r#"{name}; mkdir -p "$0/$alone"; script=$1 folder=$0/$alone; shift 2; exec sh -c "$script" "$folder" "$@""#
    );
    let mut words = vec!["sh", "-c", &script, &job[3], &job[2], "-"];
    words.extend(job[4..].iter().map(String::as_str));
    let (acquisitions, start) = (acquisitions(8), Instant::now());
    let crowd = Crowd::of(20);
    let (mut random, mut kills) = (fastrand::Rng::new(), 0);
    let lock = ["run", "--wait", "--ttl", store.shortest(), "--quiet"];
    crowd.work(
        |place| store.redlock(&[&lock[..], options(place), &["--"], &words].concat()),
        || {
            let is_done = || crowd.ends(0) >= acquisitions && crowd.has_served_each(1);
            while !is_done() && is_within(LIMIT, start) {
                thread::sleep(Duration::from_secs(1));
                kills += usize::from(crowd.kill(None, &mut random));
            }
        },
    );
    let ends = crowd.ends.lock().expect("the ends");
    let served = crowd.served.lock().expect("who was served");
    println!("{}: {kills} kills, ends {ends:?}, served {served:?} in {:?}", store.url, start.elapsed());
    assert!(kills > 0, "nobody was killed");
    for name in names {
        let seen = std::fs::read_to_string(std::path::Path::new(&job[3]).join(name).join("broken"));
        assert_eq!(seen.unwrap_or_default(), "", "with {name}");
    }
    assert!(ends.get(&0).is_some_and(|served| *served >= acquisitions), "{ends:?}");
    assert!(served.iter().all(|count| *count > 0), "somebody starved: {served:?}");
    assert!(ends.keys().all(|end| [0, -9, 69, 79].contains(end)), "{ends:?}");
}

pub fn holders_of_two_keys_never_meet(store: &Store) {
    a_crowd_keeps_the_rules(store, &|place| ("writer", in_either_order(place)));
}

fn in_either_order(place: usize) -> &'static [&'static str] {
    if place.is_multiple_of(2) { &["-k", "a", "-k", "b"] } else { &["-k", "b", "-k", "a"] }
}

/// Nobody dies, so everybody is served at once and nothing is left.
pub fn fifty_pairs_never_deadlock(store: &Store) {
    let rules = Rules::new(1);
    let job = rules.job("writer", "0");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    let start = Instant::now();
    let crowd = Crowd { rounds: acquisitions(8) / 100, ..Crowd::of(100) };
    let program = |place| {
        store.redlock(&[&["run", "--wait"], in_either_order(place), &["--quiet", "--"], &job].concat())
    };
    crowd.work(program, || eventually(LIMIT, "the end of all rounds", || crowd.is_done()));
    let ends = crowd.ends.lock().expect("the ends");
    println!("{}: ends {ends:?} in {:?}", store.url, start.elapsed());
    assert_eq!(rules.broken(), Vec::<String>::new());
    assert_eq!(ends.keys().collect::<Vec<_>>(), [&0], "{ends:?}");
    for key in ["a", "b"] {
        let status = store.status(key);
        assert!(status["holders"][0].is_null() && status["waiters"][0].is_null(), "{status}");
    }
}

/// 20 workers with the roles of [`Rules`], of whom one dies each second.
fn a_crowd_keeps_the_rules(
    store: &Store,
    role: &(dyn Fn(usize) -> (&'static str, &'static [&'static str]) + Sync),
) {
    let rules = Rules::new(3);
    let acquisitions = acquisitions(8);
    let start = Instant::now();
    let crowd = Crowd::of(20);
    let mut random = fastrand::Rng::new();
    let mut kills = 0;
    let program = |place: usize| {
        let (role, options) = role(place);
        let job = rules.job(role, "0");
        let job: Vec<&str> = job.iter().map(String::as_str).collect();
        let lock = ["run", "--wait", "--ttl", store.shortest(), "--quiet"];
        store.redlock(&[&lock[..], options, &["--"], &job].concat())
    };
    // Half of an even share. How often a worker asks is up to the scheduler: one may be served more often than another.
    let share = acquisitions / (2 * crowd.workers.len());
    let is_done = || crowd.ends(0) >= acquisitions && crowd.has_served_each(share);
    crowd.work(program, || {
        while !is_done() && is_within(LIMIT, start) {
            thread::sleep(Duration::from_secs(1));
            kills += usize::from(crowd.kill(None, &mut random));
        }
    });
    let ends = crowd.ends.lock().expect("the ends");
    let served = crowd.served.lock().expect("who was served");
    println!("{}: {kills} kills, ends {ends:?}, served {served:?} in {:?}", store.url, start.elapsed());
    assert!(kills > 0, "nobody was killed");
    assert_eq!(rules.broken(), Vec::<String>::new());
    let total: usize = served.iter().sum();
    assert!(total >= acquisitions, "no more than {total} within {LIMIT:?}");
    assert!(served.iter().all(|count| *count >= share), "somebody starved: {served:?}");
    assert!(ends.keys().all(|end| [0, -9, 69, 79].contains(end)), "{ends:?}");
}

/// Without a lock readers and writers, and too many with a permit, do meet.
#[test]
fn without_a_lock_the_rules_are_broken() {
    for role in [&["reader", "writer"][..], &["permit"]] {
        let rules = Rules::new(3);
        let start = Instant::now();
        let unlocked = |place: usize| {
            let job = rules.job(role[place % role.len()], "0.01");
            let mut command = Command::new(&job[0]);
            command.args(&job[1..]);
            Redlock { command }
        };
        Crowd::of(20).work(unlocked, || {
            while rules.broken().is_empty() && start.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(!rules.broken().is_empty(), "{role:?}");
    }
}

/// The same jobs without a lock do meet; else the test above shows nothing.
#[test]
fn without_a_lock_the_witness_sees_overlaps() {
    let witness = Witness::new();
    let job = witness.job("0.01");
    let unlocked = |_: usize| {
        let mut command = Command::new(&job[0]);
        command.args(&job[1..]);
        Redlock { command }
    };
    let start = Instant::now();
    Crowd::of(WORKERS).work(unlocked, || {
        while witness.overlaps().is_empty() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
    });
    println!("{} overlaps without a lock", witness.overlaps().len());
    assert!(!witness.overlaps().is_empty());
}

/// `None` also when the store is too busy to say: then somebody else dies in this second.
fn holder(store: &Store) -> Option<i32> {
    let status = store.redlock(&["status", "--json", "X", "--connect-timeout", "1s"]).run();
    let locks: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
    locks[0]["holders"][0]["pid"].as_i64().map(|pid| pid as i32)
}

/// Workers, each of whom runs the same program again and again.
pub struct Crowd {
    pub workers: Vec<Worker>,
    /// As often each worker is to be served.
    rounds: usize,
    pub over: AtomicBool,
    /// How often a run ended with each exit status.
    pub ends: Mutex<BTreeMap<i32, usize>>,
    /// How often each worker was served.
    pub served: Mutex<Vec<usize>>,
}

pub type Worker = Mutex<Option<Running>>;

impl Crowd {
    pub fn of(count: usize) -> Crowd {
        let workers = (0..count).map(|_| Mutex::new(None)).collect();
        let served = Mutex::new(vec![0; count]);
        Crowd { workers, rounds: usize::MAX, over: AtomicBool::new(false), ends: Mutex::default(), served }
    }

    /// They work until `meanwhile` is done.
    pub fn work(&self, program: impl Fn(usize) -> Redlock + Sync, meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            let program = &program;
            for place in 0..self.workers.len() {
                scope.spawn(move || while self.run_once(place, program) {});
            }
            let _end = End(self);
            meanwhile();
        });
    }

    fn run_once(&self, place: usize, program: impl Fn(usize) -> Redlock) -> bool {
        let worker = &self.workers[place];
        let mut running = current(worker);
        if self.over.load(Ordering::SeqCst)
            || self.served.lock().expect("who was served")[place] >= self.rounds
        {
            return false;
        }
        let pid = running.insert(program(place).spawn()).pid();
        drop(running);
        // Its pid stays its own until the lock of the worker is held: nobody else is killed instead.
        waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("its end");
        let ended = current(worker).take().expect("it was running").finish();
        if ended.code() > 0 {
            print!("{}", ended.stderr);
        }
        *self.ends.lock().expect("the ends").entry(ended.code()).or_default() += 1;
        self.served.lock().expect("who was served")[place] += usize::from(ended.code() == 0);
        true
    }

    /// Kills the one with this pid, or anyone. `false` when it has ended.
    pub fn kill(&self, pid: Option<i32>, random: &mut fastrand::Rng) -> bool {
        let chosen = random.usize(..self.workers.len());
        self.workers.iter().enumerate().any(|(place, worker)| {
            current(worker).as_ref().is_some_and(|running| {
                let meant = pid.map_or(place == chosen, |pid| pid == running.pid());
                let kill = meant && is_alive(running.pid());
                if kill {
                    running.signal(Signal::SIGKILL);
                }
                kill
            })
        })
    }

    fn is_done(&self) -> bool {
        self.has_served_each(self.rounds)
    }

    pub fn has_served_each(&self, times: usize) -> bool {
        self.served.lock().expect("who was served").iter().all(|served| *served >= times)
    }

    fn ends(&self, status: i32) -> usize {
        self.ends.lock().expect("the ends").get(&status).copied().unwrap_or(0)
    }
}

/// Ends the work, also when the test failed.
struct End<'a>(&'a Crowd);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        for worker in &self.0.workers {
            if let Some(running) = current(worker).as_ref() {
                running.signal(Signal::SIGKILL);
            }
        }
    }
}

pub fn current(worker: &Worker) -> MutexGuard<'_, Option<Running>> {
    worker.lock().expect("a worker")
}
