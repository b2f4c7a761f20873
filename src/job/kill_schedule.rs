//! The plan of a job's end as the guard keeps it: on a busy machine, and for a large job, it stops and kills earlier.

use std::fs;
use std::time::Duration;

use nix::sys::sysinfo::sysinfo;
use nix::unistd::{SysconfVar, sysconf};

use super::deadlines::{Deadlines, LEAST_GRACE};
use crate::clock::BootTime;

/// Added for each process that waits for the same processor: a tick or two of the scheduler. Processes that fork without
/// end get ahead of the guard again and again.
const QUEUED: Duration = Duration::from_millis(10);
/// Added for each process of the job, and as often for each process that shares the guard's processor. The threads of the
/// cgroup, or of the whole system, are the upper bound: counting the job's own would take as long as killing them.
/// Measured: about 10 us beside two busy processes on two processors.
const EACH: Duration = Duration::from_micros(20);
/// The guard rests so long before it kills: the scheduler makes a process wait that has used more than its share.
pub const REST: Duration = Duration::from_millis(150);

/// The schedule of a job's end, counted from when its deadlines last moved. Every process of the job is dead when its lease
/// ends.
#[derive(Clone, Copy, Debug)]
pub struct KillSchedule {
    planned: Deadlines,
    /// The time from when the deadlines moved to the end of the lease.
    total: Duration,
    /// The time that the killing may take.
    margin: Duration,
    /// When to look at the load again.
    pub look_at: BootTime,
}

impl KillSchedule {
    pub fn new(now: BootTime, planned: Deadlines) -> KillSchedule {
        let total = planned.end.since(now);
        let margin = planned.end.since(planned.kill);
        let mut schedule = KillSchedule { planned, total, margin, look_at: now };
        schedule.look_at = schedule.soonest();
        schedule
    }

    /// The first look at the load. A lease is renewed after a third of its time, so most jobs never get here.
    fn soonest(&self) -> BootTime {
        self.planned.end.minus(self.total / 2)
    }

    /// Sets the margin by the load of the system, which may still grow.
    pub fn note(&mut self, load: Load) {
        let (total, planned) = (self.total, self.planned);
        // The load of others leaves the time in which a renewal that failed once is tried again.
        let until_first = (planned.end.since(planned.kill) + load.until_first()).min(total / 3);
        self.margin = (until_first + load.for_all()).min(total / 2);
        let left = self.kill_at().left();
        self.look_at = if left > REST * 2 { BootTime::after(left / 2) } else { BootTime::NEVER };
    }

    /// True if the load was looked at since the deadlines last moved.
    pub fn is_load_known(&self) -> bool {
        self.look_at != self.soonest()
    }

    /// The time of SIGTERM: as planned, or earlier for a job that is killed earlier. It always has some time to end by itself.
    pub fn stop_at(&self) -> BootTime {
        let grace = self.planned.kill.since(self.planned.stop).min(self.total / LEAST_GRACE);
        self.planned.stop.min(self.kill_at().minus(grace))
    }

    /// The time from which on the guard rests.
    pub fn rest_at(&self) -> BootTime {
        self.kill_at().minus(REST.min(self.total / 8))
    }

    /// The time of SIGKILL.
    pub fn kill_at(&self) -> BootTime {
        self.planned.end.minus(self.margin)
    }
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
    use crate::job::Reserve;

    fn schedule(seconds: u64, kill_after: u64) -> KillSchedule {
        let (granted, lease) = (BootTime::from_nanos(0), Duration::from_secs(seconds));
        let reserve = Reserve::new(lease, Duration::from_millis(kill_after));
        KillSchedule::new(granted, reserve.before(granted.plus(lease)))
    }

    fn millis(time: BootTime) -> u128 {
        u128::from(time.as_nanos()) / 1_000_000
    }

    #[test]
    fn a_small_job_ends_as_planned() {
        for (seconds, kill_after) in [(30, 5000), (30, 100), (1, 250), (1, 0)] {
            let schedule = schedule(seconds, kill_after);
            let planned = schedule.planned;
            assert_eq!((schedule.stop_at(), schedule.kill_at()), (planned.stop, planned.kill));
        }
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
    fn a_load_that_proc_does_not_show() {
        let (shown, hidden) = (Load::now(), Load::of_the_last_minute(1).expect("a load"));
        // Others start and end some between the two.
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
