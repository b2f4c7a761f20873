//! When to stop and to kill a job, so that all of it is dead at its deadline.

use std::fs;
use std::time::Duration;

use nix::sys::sysinfo::sysinfo;
use nix::unistd::{SysconfVar, sysconf};

use crate::clock::{BootTime, Deadline};

/// The time to kill a small job on a busy machine; most of it passes until the guard is scheduled. The host of a virtual
/// machine may stop it for as long.
const MARGIN: Duration = Duration::from_millis(500);
/// The part of a short job's time that is its margin, in percent.
const MOST_OF_SHORT: u32 = 15;
/// Added for each process that waits for the same processor: a tick or two of the scheduler. Processes that fork without
/// end get ahead of the guard again and again.
const QUEUED: Duration = Duration::from_millis(10);
/// Added for each process of the job, and as often for each process that shares the guard's processor. The threads of the
/// cgroup, or of the whole system, are the upper bound: counting the job's own would take as long as killing them.
/// Measured: about 10 us beside two busy processes on two processors.
const EACH: Duration = Duration::from_micros(20);
/// The part of the job's time that lies between SIGTERM and SIGKILL at least, unless --kill-after is less.
const LEAST_GRACE: u32 = 10;
/// The guard rests so long before it kills: the scheduler makes a process wait that has used more than its share.
pub const REST: Duration = Duration::from_millis(150);

/// The schedule of a job's end, counted from when its deadline was last moved. Every process of the job is dead at the
/// deadline.
#[derive(Clone, Copy, Debug)]
pub struct KillSchedule {
    granted: BootTime,
    deadline: Deadline,
    /// From SIGTERM to the deadline.
    kill_after: Duration,
    /// How long the killing may take.
    margin: Duration,
    /// When to look at the load again.
    pub look_at: BootTime,
}

impl KillSchedule {
    pub fn new(granted: BootTime, deadline: Deadline, kill_after: Duration) -> KillSchedule {
        let total = deadline.since(granted);
        let mut schedule =
            KillSchedule { granted, deadline, kill_after, margin: margin_of_small(total), look_at: granted };
        schedule.look_at = schedule.soonest();
        schedule
    }

    /// The first look at the load. A lease is renewed after a third of its time, so most jobs never get here.
    fn soonest(&self) -> BootTime {
        self.granted.plus(self.deadline.since(self.granted) / 2)
    }

    /// Sets the margin by the load of the system, which may still grow.
    pub fn note(&mut self, load: Load) {
        let total = self.deadline.since(self.granted);
        // The load of others leaves the time in which a renewal that failed once is tried again.
        let until_first = (margin_of_small(total) + load.until_first()).min(total / 3);
        self.margin = (until_first + load.for_all()).min(total / 2);
        let left = self.kill_at().left();
        self.look_at = if left > REST * 2 { BootTime::after(left / 2) } else { BootTime::NEVER };
    }

    /// Whether the load was looked at since the deadline was last moved.
    pub fn is_load_known(&self) -> bool {
        self.look_at != self.soonest()
    }

    /// When SIGTERM goes out: `kill_after` before the deadline. A large job is killed earlier than that, but never without
    /// some time to end by itself.
    pub fn stop_at(&self) -> BootTime {
        let grace = self.kill_after.min(self.deadline.since(self.granted) / LEAST_GRACE);
        self.deadline.minus(self.kill_after).min(self.kill_at().minus(grace))
    }

    /// When the guard begins to rest.
    pub fn rest_at(&self) -> BootTime {
        self.kill_at().minus(REST.min(self.deadline.since(self.granted) / 8))
    }

    /// When SIGKILL goes out.
    pub fn kill_at(&self) -> BootTime {
        self.deadline.minus(self.margin)
    }
}

/// Of a small job that has `total` time.
fn margin_of_small(total: Duration) -> Duration {
    MARGIN.min(total * MOST_OF_SHORT / 100)
}

/// What the system has to run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub threads: usize,
    /// Those that run or want to run, for each processor.
    pub queued: usize,
}

impl Load {
    /// The load of the whole system; where /proc/loadavg is missing, that of a small one. In a container /proc/loadavg
    /// counts the host's processes, which the processors of the host run.
    pub fn now() -> Load {
        let processors =
            sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten().map_or(1, |count| count.max(1) as usize);
        let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = Load::of(&text, processors)
            .or_else(|| Load::of_the_last_minute(processors))
            .unwrap_or(Load { threads: 1000, queued: 1 });
        Load { threads: threads_of_cgroup().map_or(load.threads, |own| own.min(load.threads)), ..load }
    }

    /// How much longer killing takes than it does for a small job.
    pub fn margin(self) -> Duration {
        self.until_first() + self.for_all()
    }

    /// Until the guard has a processor.
    fn until_first(self) -> Duration {
        QUEUED * self.queued as u32
    }

    /// From the first process of the job to the last.
    fn for_all(self) -> Duration {
        EACH * self.threads as u32 * (1 + self.queued as u32)
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

/// The threads of the cgroup of this process and those below it, where they are counted: see the controller "pids" in
/// the kernel's documentation of cgroups.
fn threads_of_cgroup() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = |group: &str| {
        let (controllers, path) = group.split_once(':')?.1.split_once(':')?;
        match controllers {
            "" => Some(format!("/sys/fs/cgroup{path}")),
            _ if controllers.split(',').any(|one| one == "pids") => {
                Some(format!("/sys/fs/cgroup/pids{path}"))
            }
            _ => None,
        }
    };
    let counts = groups.lines().filter_map(path);
    counts.filter_map(|path| fs::read_to_string(path + "/pids.current").ok()?.trim().parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(seconds: u64, kill_after: u64) -> KillSchedule {
        let granted = BootTime::from_nanos(0);
        KillSchedule::new(
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
        let schedule = schedule(30, 5000);
        assert_eq!((millis(schedule.stop_at()), millis(schedule.kill_at())), (25_000, 29_500));
    }

    #[test]
    fn a_large_job_is_killed_earlier() {
        let mut schedule = schedule(1, 250);
        schedule.note(Load { threads: 7500, queued: 1 });
        assert_eq!((millis(schedule.stop_at()), millis(schedule.kill_at())), (440, 540));
    }

    /// On a busy machine a lease of a second still has time for a renewal, which is due after a third of it.
    #[test]
    fn the_load_of_others_leaves_time_to_renew() {
        let mut schedule = schedule(1, 250);
        schedule.note(Load { threads: 50, queued: 33 });
        assert_eq!((millis(schedule.stop_at()), millis(schedule.kill_at())), (532, 632));
    }

    #[test]
    fn a_short_time_is_not_used_up_by_the_margin() {
        let granted = BootTime::from_nanos(0);
        let short =
            KillSchedule::new(granted, granted.plus(Duration::from_millis(80)), Duration::from_millis(20));
        assert_eq!((millis(short.stop_at()), millis(short.kill_at())), (60, 68));
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
        let mut schedule = schedule(1, 250);
        schedule.note(load);
        assert_eq!(millis(schedule.kill_at()), 500);
        let one_fork = Load { threads: 100, queued: 2 };
        schedule.note(one_fork);
        assert_eq!(millis(schedule.kill_at()), 824);
    }
}
