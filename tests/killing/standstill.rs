//! The whole machine stands still, as when its host gives it no processor. No program can keep a deadline then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(5);

/// Measures with a thread that runs before all others, so a busy machine does not count.
pub struct Standstill {
    /// Milliseconds.
    longest: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Standstill {
    pub fn watch() -> Standstill {
        let watch = Standstill { longest: Arc::default(), is_over: Arc::default() };
        let (longest, is_over) = (Arc::clone(&watch.longest), Arc::clone(&watch.is_over));
        thread::spawn(move || {
            let first = nix::libc::sched_param { sched_priority: 99 };
            // SAFETY: the pointer is that of a local variable; 0 is this thread.
            if unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_FIFO, &first) } != 0 {
                return;
            }
            while !is_over.load(Relaxed) {
                let begun = Instant::now();
                thread::sleep(TICK);
                longest.fetch_max(begun.elapsed().saturating_sub(TICK).as_millis() as u64, Relaxed);
            }
        });
        watch
    }

    /// The longest one so far. Zero where the thread may not run before others.
    pub fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Relaxed))
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}
