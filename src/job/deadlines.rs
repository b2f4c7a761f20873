//! The plan of a job's end, made from the end of its lease.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{BootTime, Deadline};

/// The time to kill a small job on a busy machine; most of it passes until the guard is scheduled. The host of a virtual
/// machine may stop it for as long.
const MARGIN: Duration = Duration::from_millis(500);
/// The part of a short lease that is its margin, in percent.
const MOST_OF_SHORT: u32 = 15;
/// The part of the lease that lies between SIGTERM and SIGKILL at least, unless --kill-after is less.
pub const LEAST_GRACE: u32 = 10;

/// The times at which a job is stopped and killed, if its lease is not extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// SIGTERM goes out, and nothing is started any more.
    pub stop: BootTime,
    /// SIGKILL goes out. The guard kills earlier on a busy machine, and stops earlier then.
    pub kill: BootTime,
    /// The lease ends: every process of the job is dead.
    pub end: Deadline,
}

/// The last part of a lease, in which its job is stopped and killed.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    /// The time from SIGTERM to SIGKILL that the options name.
    pub kill_after: Duration,
    /// The time for killing the job.
    margin: Duration,
    length: Duration,
}

impl Reserve {
    /// Leaves `kill_after` between SIGTERM and the end of a lease of this length. SIGKILL follows SIGTERM within that time,
    /// but never without some time for the job to end by itself.
    pub fn new(lease: Duration, kill_after: Duration) -> Reserve {
        let margin = MARGIN.min(lease * MOST_OF_SHORT / 100);
        let grace = kill_after.min(lease / LEAST_GRACE);
        Reserve { kill_after, margin, length: kill_after.max(margin + grace) }
    }

    /// The time from SIGTERM to the end of the lease.
    pub fn length(self) -> Duration {
        self.length
    }

    /// The plan for a lease that ends then.
    pub fn before(self, end: Deadline) -> Deadlines {
        Deadlines { stop: end.minus(self.length), kill: end.minus(self.margin), end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lease: u64, kill_after: u64) -> (u64, u64) {
        let [lease, kill_after] = [lease, kill_after].map(Duration::from_millis);
        let Deadlines { stop, kill, .. } =
            Reserve::new(lease, kill_after).before(BootTime::from_nanos(0).plus(lease));
        (stop.as_nanos() / 1_000_000, kill.as_nanos() / 1_000_000)
    }

    #[test]
    fn a_job_is_stopped_and_killed_before_its_lease_ends() {
        assert_eq!(plan(30_000, 5000), (25_000, 29_500));
    }

    #[test]
    fn a_short_lease_is_not_used_up_by_the_margin() {
        assert_eq!(plan(80, 20), (60, 68));
    }

    #[test]
    fn there_is_time_to_end_before_the_kill() {
        assert_eq!(plan(30_000, 100), (29_400, 29_500));
        assert_eq!(plan(30_000, 0), (29_500, 29_500));
    }
}
