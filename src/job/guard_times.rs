//! When the guard looks, rests, stops and kills.

use crate::clock::{BootTime, Deadline};

use super::kill_schedule::{KillSchedule, REST};

/// The times that a guard keeps. What it does then is its own.
#[derive(Default)]
pub struct GuardTimes {
    /// `None` for a job without a deadline.
    pub schedule: Option<KillSchedule>,
    /// The deadline came near: the job is being stopped.
    pub expired: bool,
    /// When to kill the job, once SIGTERM went out.
    pub kill_at: Option<Deadline>,
    /// From then on the guard rests until `kill_at`.
    rest_at: Option<BootTime>,
    /// When to decide about what outlived the command: until then it may be about to exit.
    pub leftovers_at: Option<Deadline>,
}

impl GuardTimes {
    /// SIGTERM goes out now, SIGKILL at `kill_at`, or earlier if that was said before.
    pub fn stop(&mut self, kill_at: Deadline) {
        let rest_at = kill_at.minus(REST.min(kill_at.left() / 2));
        self.kill_at = self.kill_at.into_iter().chain([kill_at]).min();
        self.rest_at = self.rest_at.into_iter().chain([rest_at]).min();
    }

    /// When the job will be killed, if its time is not extended.
    pub fn next_kill(&self) -> Deadline {
        let allowed = self.schedule.map(|schedule| schedule.kill_at());
        self.kill_at.into_iter().chain(allowed).min().unwrap_or(Deadline::NEVER)
    }

    pub fn is_resting(&self) -> bool {
        self.next_rest().is_some_and(BootTime::has_passed)
    }

    fn next_rest(&self) -> Option<BootTime> {
        self.rest_at.into_iter().chain(self.schedule.map(|schedule| schedule.rest_at())).min()
    }

    pub fn next(&self) -> Option<BootTime> {
        let rest_at = self.next_rest().filter(|_| !self.is_resting());
        // A job that is being stopped ends with its last process.
        let or_leftovers = self.kill_at.or(self.leftovers_at);
        let allowed = self.schedule.map(|schedule| match self.expired {
            true => schedule.look_at,
            false => schedule.look_at.min(schedule.stop_at()),
        });
        [rest_at, or_leftovers, allowed].into_iter().flatten().min()
    }
}

#[test]
fn the_first_time_counts() {
    use std::time::Duration;

    use crate::clock::fake::{START, move_to, start};
    use crate::job::Reserve;

    start();
    let at = |millis| START.plus(Duration::from_millis(millis));
    let mut times = GuardTimes::default();
    assert_eq!((times.next(), times.next_kill()), (None, Deadline::NEVER));
    // The load is looked at after half of the time.
    let [lease, kill_after] = [30, 5].map(Duration::from_secs);
    times.schedule = Some(KillSchedule::new(START, Reserve::new(lease, kill_after).before(at(30_000))));
    assert_eq!((times.next(), times.next_kill()), (Some(at(15_000)), at(29_500)));
    times.leftovers_at = Some(at(50));
    assert_eq!(times.next(), Some(at(50)));
    times.stop(at(2000));
    times.stop(at(4000));
    assert_eq!((times.next(), times.next_kill()), (Some(at(1850)), at(2000)));
    move_to(at(1900));
    assert!(times.is_resting());
    assert_eq!(times.next(), Some(at(2000)));
}
