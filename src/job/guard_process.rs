//! The guard as redlock knows it, from any thread: its pid, and when it has to stop the job.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use nix::unistd::Pid;

use super::process;
use crate::clock::BootTime;

#[derive(Debug)]
pub struct GuardProcess {
    /// [`REAPED`] once it was reaped: the pid may be another's.
    pid: AtomicI32,
    /// The time to stop the job, in nanoseconds on the boot clock, or [`NEVER`].
    stop_at: AtomicU64,
}

const NEVER: u64 = u64::MAX;
const REAPED: i32 = 0;

impl GuardProcess {
    pub fn new(pid: Pid) -> GuardProcess {
        GuardProcess { pid: AtomicI32::new(pid.as_raw()), stop_at: AtomicU64::new(NEVER) }
    }

    pub fn pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub fn is_reaped(&self) -> bool {
        self.pid() == REAPED
    }

    /// It was reaped, or nobody waits for it: no signal goes to its pid any more.
    pub fn forget(&self) {
        self.pid.store(REAPED, Ordering::Relaxed);
    }

    pub fn send(&self, signal: i32) {
        if !self.is_reaped() {
            process::send(self.pid(), signal);
        }
    }

    /// The time at which it has to stop the job, if there is one.
    pub fn stop_at(&self) -> Option<BootTime> {
        let stop_at = self.stop_at.load(Ordering::Relaxed);
        (stop_at != NEVER).then(|| BootTime::from_nanos(stop_at))
    }

    /// True if it has to stop the job by now.
    pub fn is_due(&self) -> bool {
        self.stop_at().is_some_and(BootTime::has_passed)
    }

    pub fn set_stop_at(&self, stop_at: Option<BootTime>) {
        self.stop_at.store(stop_at.map_or(NEVER, BootTime::as_nanos), Ordering::Relaxed);
    }

    /// Moves that time. A job without a deadline gets none.
    pub fn extend(&self, stop_at: BootTime) {
        let set = |known| (known != NEVER).then_some(stop_at.as_nanos());
        let _ = self.stop_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }
}
