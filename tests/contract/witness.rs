use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::harness::{Redlock, Running, Store, Witness, is_alive};

const WORKERS: usize = 50;
const ACQUISITIONS: usize = 2000;
const LIMIT: Duration = Duration::from_secs(150);

/// One redlock, the holder or a waiter, dies each second.
pub fn fifty_workers_never_meet(store: &Store) {
    let witness = Witness::new();
    let job = witness.job("0");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    let args = [&["run", "--key", "X", "--wait", "--ttl", "1s", "--quiet", "--"][..], &job].concat();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    let crowd = Crowd::new();
    let mut kills = 0;
    crowd.work(
        || store.redlock(&args),
        || {
            while crowd.ends(0) < ACQUISITIONS && start.elapsed() < LIMIT {
                thread::sleep(Duration::from_secs(1));
                let holder = random.bool().then(|| holder(store)).flatten();
                kills += usize::from(crowd.kill(holder, &mut random));
            }
        },
    );
    let (took, acquisitions, overlaps) = (start.elapsed(), crowd.ends(0), witness.overlaps());
    let ends = crowd.ends.lock().expect("the ends");
    println!(
        "{}: seed {seed}, {kills} kills, {acquisitions} acquisitions, {} overlaps",
        store.url,
        overlaps.len()
    );
    println!("{took:?}; ends by exit status: {ends:?}");
    assert!(kills > 0, "nobody was killed");
    assert_eq!(overlaps, Vec::<String>::new());
    assert!(acquisitions >= ACQUISITIONS, "no more than {acquisitions} within {LIMIT:?}");
    // On a busy host a grant may come too late (69), or a lease of one second end before its renewal (79).
    assert!(ends.keys().all(|end| [0, -9, 69, 79].contains(end)), "{ends:?}");
}

/// The same jobs without a lock do meet; else the test above shows nothing.
#[test]
fn without_a_lock_the_witness_sees_overlaps() {
    let witness = Witness::new();
    let job = witness.job("0.01");
    let unlocked = || {
        let mut command = Command::new(&job[0]);
        command.args(&job[1..]);
        Redlock { command }
    };
    let start = Instant::now();
    Crowd::new().work(unlocked, || {
        while witness.overlaps().is_empty() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
    });
    println!("{} overlaps without a lock", witness.overlaps().len());
    assert!(!witness.overlaps().is_empty());
}

fn holder(store: &Store) -> Option<i32> {
    store.status("X")["holders"][0]["pid"].as_i64().map(|pid| pid as i32)
}

/// Workers, each of whom runs the same program again and again.
struct Crowd {
    workers: Vec<Worker>,
    over: AtomicBool,
    /// How often a run ended with each exit status.
    ends: Mutex<BTreeMap<i32, usize>>,
}

type Worker = Mutex<Option<Running>>;

impl Crowd {
    fn new() -> Crowd {
        let workers = (0..WORKERS).map(|_| Mutex::new(None)).collect();
        Crowd { workers, over: AtomicBool::new(false), ends: Mutex::default() }
    }

    /// They work until `meanwhile` is done.
    fn work(&self, program: impl Fn() -> Redlock + Sync, meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            for worker in &self.workers {
                scope.spawn(|| while self.run_once(worker, &program) {});
            }
            let _end = End(self);
            meanwhile();
        });
    }

    fn run_once(&self, worker: &Worker, program: impl Fn() -> Redlock) -> bool {
        let mut running = current(worker);
        if self.over.load(Ordering::SeqCst) {
            return false;
        }
        let pid = running.insert(program().spawn()).pid();
        drop(running);
        // Its pid stays its own until the lock of the worker is held: nobody else is killed instead.
        waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("its end");
        let ended = current(worker).take().expect("it was running").finish();
        *self.ends.lock().expect("the ends").entry(ended.code()).or_default() += 1;
        true
    }

    /// Kills the one with this pid, or anyone. `false` when it has ended.
    fn kill(&self, pid: Option<i32>, random: &mut fastrand::Rng) -> bool {
        let chosen = random.usize(..WORKERS);
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

fn current(worker: &Worker) -> MutexGuard<'_, Option<Running>> {
    worker.lock().expect("a worker")
}
