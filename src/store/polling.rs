//! When a waiter asks again where nothing wakes it.

use std::time::Duration;

use crate::poll::jittered;

/// The first and the longest interval.
const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Growing intervals with jitter, so that many waiters do not ask in step.
#[derive(Default)]
pub struct PollSchedule {
    interval: Duration,
}

impl PollSchedule {
    /// The pause before the next question, about a lock that is free in `free_in` at the latest.
    pub fn pause(&mut self, free_in: Duration) -> Duration {
        self.interval = (self.interval * 3 / 2).clamp(INTERVALS[0], INTERVALS[1]);
        jittered(self.interval).min(free_in)
    }
}

#[test]
fn pauses_grow_and_end_with_the_lease() {
    let mut polls = PollSchedule::default();
    for expected in [100, 150, 225, 337, 506, 759, 1000, 1000] {
        let (pause, expected) = (polls.pause(Duration::MAX), Duration::from_millis(expected));
        // Whole milliseconds are expected, and the interval has parts of one.
        let most = expected * 3 / 2 + Duration::from_millis(1);
        assert!(pause >= expected / 2 && pause <= most, "{pause:?} for {expected:?}");
    }
    assert_eq!(polls.pause(Duration::from_millis(7)), Duration::from_millis(7));
}
