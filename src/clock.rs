//! The clock on which every lease is measured.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::PollTimeout;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point on the boot clock.
///
/// `CLOCK_BOOTTIME` goes on while the machine sleeps, so a lease that ended during a suspend is
/// seen as ended on waking; `std::time::Instant` (`CLOCK_MONOTONIC`) would not see it. It does not
/// jump when somebody sets the wall clock. See `clock_gettime(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BootTime(Duration);

/// A point on the boot clock before which something has to be over.
pub type Deadline = BootTime;

impl BootTime {
    /// Later than all others.
    pub const NEVER: BootTime = BootTime(Duration::MAX);

    /// A reading of `CLOCK_BOOTTIME`; later than every deadline on a system without that clock.
    pub fn now() -> Self {
        #[cfg(test)]
        if let Some(now) = fake::now() {
            return now;
        }
        // The kernel has had this clock since 2.6.39. Without it no lease is safe, so the
        // answer "far in the future" makes every deadline pass: closed, not open.
        BootTime(clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from))
    }

    pub fn after(duration: Duration) -> Self {
        Self::now().plus(duration)
    }

    /// Saturates at [`BootTime::NEVER`].
    pub fn plus(self, duration: Duration) -> Self {
        BootTime(self.0.saturating_add(duration))
    }

    /// Saturates at the boot.
    pub fn minus(self, duration: Duration) -> Self {
        BootTime(self.0.saturating_sub(duration))
    }

    /// The time from now to this point; zero when it has passed.
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }

    /// The time from `earlier` to this point; zero when `earlier` is not earlier.
    pub fn since(self, earlier: BootTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// True also at this very point: a lease ends when its deadline is reached.
    pub fn has_passed(self) -> bool {
        Self::now() >= self
    }

    /// The timeout for poll(2): until this point, but at most a minute, so that the caller looks at the clock again.
    pub fn poll_timeout(self) -> PollTimeout {
        if self.has_passed() {
            return PollTimeout::ZERO;
        }
        // poll(2) takes whole milliseconds, rounded down; one more keeps the loop from spinning.
        PollTimeout::from(self.left().as_millis().saturating_add(1).min(60_000) as u16)
    }

    pub fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The inverse of [`BootTime::as_nanos`].
    pub fn from_nanos(nanos: u64) -> Self {
        BootTime(Duration::from_nanos(nanos))
    }
}

/// A timer on the boot clock, readable when its time has come.
pub struct BootTimer(TimerFd);

impl BootTimer {
    pub fn new() -> io::Result<BootTimer> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(BootTimer(TimerFd::new(timerfd::ClockId::CLOCK_BOOTTIME, flags)?))
    }

    /// Without a time the timer is off. One that has passed comes at once.
    pub fn set(&self, at: Option<BootTime>) {
        let _ = match at.filter(|at| *at != BootTime::NEVER) {
            Some(at) => {
                // A time of zero would turn it off.
                let at = Duration::from_nanos(at.as_nanos().clamp(1, i64::MAX as u64));
                self.0.set(Expiration::OneShot(at.into()), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
            None => self.0.unset(),
        };
    }

    /// The time until it comes; `None` when it is off or has come.
    pub fn left(&self) -> Option<Duration> {
        match self.0.get() {
            Ok(Some(Expiration::OneShot(left))) => Some(left.into()),
            _ => None,
        }
    }

    pub fn clear(&self) {
        let _ = self.0.wait();
    }
}

impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A clock that stands still but where a test, or a wait, moves it: for the thread that asks for it.
#[cfg(test)]
pub mod fake {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<Option<BootTime>> = const { Cell::new(None) };
    }

    /// Some time after the boot.
    pub const START: BootTime = BootTime(Duration::from_secs(1000));

    /// Shows [`START`] to this thread from now on.
    pub fn start() {
        NOW.set(Some(START));
    }

    /// The time that the thread sees; `None` for the real clock.
    pub fn now() -> Option<BootTime> {
        NOW.get()
    }

    /// Moves the clock on, never back. Nobody waits for ever.
    pub fn move_to(time: BootTime) {
        assert!(time < BootTime::NEVER, "a test would wait for ever");
        NOW.set(NOW.get().max(Some(time)));
    }
}
