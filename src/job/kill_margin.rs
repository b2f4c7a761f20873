//! The time that a job has, and when its end must begin so that all of it is dead in time.

use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use nix::sys::sysinfo::sysinfo;

use crate::clock::{BootTime, Deadline};

/// The time that killing a small job takes on a machine that is not idle: for the most part until the guard is scheduled.
/// At most a tenth of the time of the job.
const MARGIN: Duration = Duration::from_millis(100);
/// For each process that waits for the same processor more: a tick or two of the scheduler. Those that fork all the time
/// get ahead of the guard again and again.
const QUEUED: Duration = Duration::from_millis(10);
/// For each process of the job more, of which the threads of the whole system are the upper bound: counting those of the
/// job would take as long as killing them. Measured: about 10 us beside two busy processes on two processors.
const EACH: Duration = Duration::from_micros(20);
/// So long before the time to kill the guard rests: one that has used more than its share of the processor is scheduled
/// late.
pub const REST: Duration = Duration::from_millis(150);

/// The time of a job, from the moment at which it was granted or extended. Every process of the job has to be dead at
/// its deadline.
#[derive(Clone, Copy, Debug)]
pub struct KillMargin {
    granted: BootTime,
    deadline: Deadline,
    /// From SIGTERM to the deadline.
    kill_after: Duration,
    /// What killing takes.
    margin: Duration,
    /// When to look at the system again.
    pub look_at: BootTime,
}

impl KillMargin {
    pub fn new(granted: BootTime, deadline: Deadline, kill_after: Duration) -> KillMargin {
        let total = deadline.since(granted);
        let mut allowance =
            KillMargin { granted, deadline, kill_after, margin: MARGIN.min(total / 10), look_at: granted };
        allowance.look_at = allowance.soonest();
        allowance
    }

    /// A lease is renewed after a third of its time: up to here the job has not to fear for it.
    fn soonest(&self) -> BootTime {
        self.granted.plus(self.deadline.since(self.granted) / 2)
    }

    /// Takes note of what runs in the system, which may grow until the end.
    pub fn note(&mut self, load: Load) {
        let total = self.deadline.since(self.granted);
        let margin = MARGIN.min(total / 10) + QUEUED * load.queued as u32 + EACH * load.threads as u32;
        self.margin = margin.min(total / 2);
        let left = self.kill_at().left();
        self.look_at = if left > REST * 2 { BootTime::after(left / 2) } else { BootTime::NEVER };
    }

    /// Whether it came to that.
    pub fn was_noted(&self) -> bool {
        self.look_at != self.soonest()
    }

    /// When SIGTERM goes out: `kill_after` before the deadline. A large job is killed earlier than that.
    pub fn stop_at(&self) -> BootTime {
        self.deadline.minus(self.kill_after).min(self.kill_at())
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

/// What else there is to run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub threads: usize,
    /// How many of them wait for each processor.
    pub queued: usize,
}

impl Load {
    /// That of the whole system. Where it cannot be seen it is that of a small one.
    pub fn now() -> Load {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Load::of(&text, processors)
            .or_else(|| Load::of_the_last_minute(processors))
            .unwrap_or(Load { threads: 1000, queued: 1 })
    }

    /// By sysinfo(2): a /proc that shows processes only (`subset=pid`) has no loadavg.
    fn of_the_last_minute(processors: usize) -> Option<Load> {
        let info = sysinfo().ok()?;
        let queued = info.load_average().0.ceil() as usize / processors;
        Some(Load { threads: info.process_count().into(), queued })
    }

    /// The fourth field of proc_loadavg(5): those that are running or want to, and all.
    fn of(loadavg: &str, processors: usize) -> Option<Load> {
        let (runnable, threads) = loadavg.split(' ').nth(3)?.split_once('/')?;
        Some(Load { threads: threads.parse().ok()?, queued: runnable.parse::<usize>().ok()? / processors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(seconds: u64, kill_after: u64) -> KillMargin {
        let granted = BootTime::from_nanos(0);
        KillMargin::new(
            granted,
            granted.plus(Duration::from_secs(seconds)),
            Duration::from_millis(kill_after),
        )
    }

    fn millis(time: BootTime) -> u128 {
        u128::from(time.as_nanos()) / 1_000_000
    }

    #[test]
    fn a_job_is_stopped_and_killed_before_its_deadline() {
        let allowance = allowance(30, 5000);
        assert_eq!((millis(allowance.stop_at()), millis(allowance.kill_at())), (25_000, 29_900));
    }

    #[test]
    fn a_large_job_is_killed_earlier() {
        let mut allowance = allowance(1, 250);
        allowance.note(Load { threads: 10_000, queued: 1 });
        assert_eq!((millis(allowance.stop_at()), millis(allowance.kill_at())), (690, 690));
    }

    #[test]
    fn a_short_time_is_not_used_up_by_the_margin() {
        let granted = BootTime::from_nanos(0);
        let short =
            KillMargin::new(granted, granted.plus(Duration::from_millis(80)), Duration::from_millis(20));
        assert_eq!((millis(short.stop_at()), millis(short.kill_at())), (60, 72));
    }

    #[test]
    fn a_load_that_proc_does_not_show() {
        let (shown, hidden) = (Load::now(), Load::of_the_last_minute(1).expect("a load"));
        // Of which others start and end some between the two.
        assert!(hidden.threads.abs_diff(shown.threads) < 10 + shown.threads / 2, "{shown:?} {hidden:?}");
    }

    #[test]
    fn processes_that_wait_for_a_processor_count() {
        let load = Load::of("12.01 3.20 1.00 66/412 31337\n", 2).expect("a load");
        assert_eq!((load.threads, load.queued), (412, 33));
        assert!(Load::of("12.01 3.20", 2).is_none());
        let mut allowance = allowance(1, 250);
        allowance.note(load);
        assert_eq!(millis(allowance.kill_at()), 561);
    }
}
