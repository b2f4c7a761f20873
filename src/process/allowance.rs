//! The time that a job has, and when its end must begin so that all of it is dead in time.

use std::time::Duration;

use crate::clock::{BootTime, Deadline};

/// The time that killing a small job takes on a busy machine: for the most part until the guard is scheduled, beside
/// processes that fork all the time. At most a fifth of the time of the job.
const MARGIN: Duration = Duration::from_millis(200);
/// For each process of the job more, of which the threads of the whole system are the upper bound: counting those of the
/// job would take as long as killing them. Measured: about 10 us beside two busy processes on two processors.
const EACH: Duration = Duration::from_micros(20);
/// So long before the time to kill the guard rests: one that has used more than its share of the processor is scheduled
/// late.
pub const REST: Duration = Duration::from_millis(150);

/// The time of a job, from the moment at which it was granted or extended. Every process of the job has to be dead at
/// its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    granted: BootTime,
    deadline: Deadline,
    /// From SIGTERM to SIGKILL.
    kill_after: Duration,
    /// What killing takes.
    margin: Duration,
    /// When to look for the size of the system again.
    pub look_at: BootTime,
}

impl Allowance {
    pub fn new(granted: BootTime, deadline: Deadline, kill_after: Duration) -> Allowance {
        let total = deadline.since(granted);
        let mut allowance =
            Allowance { granted, deadline, kill_after, margin: MARGIN.min(total / 5), look_at: granted };
        allowance.look_at = allowance.soonest();
        allowance
    }

    /// A lease is renewed after a third of its time: up to here the job has not to fear for it.
    fn soonest(&self) -> BootTime {
        self.granted.plus(self.deadline.since(self.granted) / 2)
    }

    /// Takes note of the threads in the system, which may grow until the end.
    pub fn note(&mut self, threads: usize) {
        let total = self.deadline.since(self.granted);
        self.margin = (MARGIN.min(total / 5) + EACH * threads as u32).min(total / 2);
        let left = self.kill_at().left();
        self.look_at = if left > REST * 2 { BootTime::after(left / 2) } else { BootTime::NEVER };
    }

    /// Whether it came to that.
    pub fn was_noted(&self) -> bool {
        self.look_at != self.soonest()
    }

    /// When SIGTERM goes out: `kill_after` before SIGKILL. For a large job that may be too soon; then it has less
    /// time to stop.
    pub fn stop_at(&self) -> BootTime {
        let of_a_small_job = self.deadline.minus(MARGIN + self.kill_after);
        self.kill_at().minus(self.kill_after).max(self.soonest().min(of_a_small_job)).min(self.kill_at())
    }

    /// From when on the guard rests.
    pub fn rest_at(&self) -> BootTime {
        self.kill_at().minus(REST.min(self.deadline.since(self.granted) / 8))
    }

    /// When SIGKILL goes out.
    pub fn kill_at(&self) -> BootTime {
        self.deadline.minus(self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(seconds: u64, kill_after: u64) -> Allowance {
        let granted = BootTime::from_nanos(0);
        Allowance::new(granted, granted.plus(Duration::from_secs(seconds)), Duration::from_millis(kill_after))
    }

    fn millis(time: BootTime) -> u128 {
        u128::from(time.as_nanos()) / 1_000_000
    }

    #[test]
    fn a_job_is_stopped_and_killed_before_its_deadline() {
        let allowance = allowance(30, 5000);
        assert_eq!((millis(allowance.stop_at()), millis(allowance.kill_at())), (24_800, 29_800));
    }

    #[test]
    fn a_large_job_is_killed_earlier_and_has_less_time_to_stop() {
        let mut allowance = allowance(1, 250);
        allowance.note(10_000);
        assert_eq!((millis(allowance.stop_at()), millis(allowance.kill_at())), (500, 600));
    }

    #[test]
    fn a_short_time_is_not_used_up_by_the_margin() {
        let granted = BootTime::from_nanos(0);
        let short =
            Allowance::new(granted, granted.plus(Duration::from_millis(80)), Duration::from_millis(20));
        assert_eq!((millis(short.stop_at()), millis(short.kill_at())), (44, 64));
    }
}
