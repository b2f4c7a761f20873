//! A processor that stands still, as when the host of a virtual machine does not run it. No program can keep a deadline there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc::{SCHED_FIFO, sched_param, sched_setscheduler};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const TICK: Duration = Duration::from_millis(5);

/// Measures with a thread on each processor that comes before all others, so a busy machine does not count.
pub struct Standstill {
    /// The longest one so far, in microseconds.
    longest: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Standstill {
    pub fn watch() -> Standstill {
        let watch = Standstill { longest: Arc::default(), is_over: Arc::default() };
        let ours = sched_getaffinity(Pid::from_raw(0)).expect("the processors");
        for processor in (0..CpuSet::count()).filter(|number| ours.is_set(*number) == Ok(true)) {
            let (longest, is_over) = (Arc::clone(&watch.longest), Arc::clone(&watch.is_over));
            thread::spawn(move || {
                let mut alone = CpuSet::new();
                alone.set(processor).expect("one of ours");
                sched_setaffinity(Pid::from_raw(0), &alone).expect("a processor");
                // SAFETY: the pointer is that of a value that lives through the call; 0 is this thread.
                if unsafe { sched_setscheduler(0, SCHED_FIFO, &sched_param { sched_priority: 99 }) } != 0 {
                    return;
                }
                while !is_over.load(Relaxed) {
                    let begun = Instant::now();
                    thread::sleep(TICK);
                    longest.fetch_max(begun.elapsed().saturating_sub(TICK).as_micros() as u64, Relaxed);
                }
            });
        }
        watch
    }

    /// The longest one so far. Zero where the threads may not run before others.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Relaxed))
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}
