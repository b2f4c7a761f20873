//! When a waiter in a quorum asks again. The servers keep no queue, as their orders could differ: a waiter asks when it
//! hears that the lock was released, after a random delay, so that not all ask at once.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use super::majority::Verdict;
use crate::clock::{BootTime, Deadline};
use crate::lock::{Result, StoreError, Timeout};
use crate::store::net::RequestError;
use crate::store::polling::PollSchedule;
use crate::store::redis::queue_place::fallback;
use crate::store::redis::subscription::Subscription;

/// The shortest and the longest window for the random delay.
const WINDOWS: [Duration; 2] = [Duration::from_millis(2), Duration::from_secs(1)];
/// After this many hints the clock is looked at.
const MOST_HINTS: usize = 1000;
/// A divided majority waits at least this long for the other servers.
const SHORTEST_GRACE: Duration = Duration::from_millis(50);

pub struct RetrySchedule {
    /// The delay is a random part of this. It grows with every split vote and shrinks with every other.
    window: Duration,
    ask_at: Deadline,
    /// The last hint that was heard: every server sends the same one.
    hint: String,
    /// All waiters of a quorum ask for a lock of another program, which wakes nobody.
    foreign_polls: PollSchedule,
}

impl RetrySchedule {
    pub fn new() -> RetrySchedule {
        RetrySchedule {
            window: WINDOWS[0],
            ask_at: BootTime::now(),
            hint: String::new(),
            foreign_polls: PollSchedule::default(),
        }
    }

    /// How long a divided majority waits for the other servers. A server that hangs does not hold up a handover, and a
    /// slow one is waited for after a few split votes.
    pub fn grace(&self) -> Duration {
        self.window.max(SHORTEST_GRACE)
    }

    /// Decides when to ask again after a verdict that took this long.
    pub fn note(&mut self, verdict: &Verdict, took: Duration) {
        let least = (took * 2).clamp(WINDOWS[0], WINDOWS[1]);
        let pause = match verdict {
            Verdict::Granted(_) => Duration::ZERO,
            Verdict::Split(_) => {
                self.window = (self.window * 2).clamp(least, WINDOWS[1]);
                self.delay()
            }
            Verdict::Held { by_redlock: false, free_in, .. } => {
                let end = free_in.saturating_add(Duration::from_millis(2) + self.delay());
                self.foreign_polls.pause(end)
            }
            Verdict::Held { free_in, .. } => {
                self.window = (self.window / 2).clamp(least, WINDOWS[1]);
                // A little after the end: the servers count in whole milliseconds.
                free_in.saturating_add(Duration::from_millis(2) + self.delay()).min(fallback())
            }
        };
        self.ask_at = Deadline::after(pause);
    }

    /// Waits for a hint, or for the time to ask. `false` when the timeout ends first.
    pub fn wait(&mut self, subscriptions: &mut [Option<Subscription>], timeout: &Timeout) -> Result<bool> {
        loop {
            for subscription in subscriptions.iter_mut() {
                self.hear(subscription);
            }
            if self.ask_at.has_passed() {
                return Ok(true);
            }
            if timeout.until.has_passed() {
                return Ok(false);
            }
            let until = self.ask_at.min(timeout.until);
            let fds = timeout.interrupt.into_iter().chain(subscriptions.iter().flatten().map(AsFd::as_fd));
            let mut polled: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut polled, until.poll_timeout()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => {
                    let (store, why) = ("a quorum".to_owned(), errno.desc().to_owned());
                    return Err(StoreError::Unreachable { store, why, transient: false });
                }
            }
            if timeout.interrupt.is_some() && polled.first().and_then(PollFd::any) == Some(true) {
                return Err(StoreError::Interrupted);
            }
        }
    }

    /// Takes note of all hints that came. A subscription that broke is dropped.
    fn hear(&mut self, subscription: &mut Option<Subscription>) {
        for _ in 0..MOST_HINTS {
            let Some(open) = subscription else { return };
            match open.text(&Timeout::of(Duration::ZERO)) {
                Ok(hint) if hint == self.hint => {}
                Ok(hint) => {
                    self.hint = hint;
                    self.ask_at = self.ask_at.min(Deadline::after(self.delay()));
                }
                Err(RequestError::TimedOut) => return,
                Err(_) => *subscription = None,
            }
        }
    }

    fn delay(&self) -> Duration {
        self.window.mul_f64(fastrand::f64())
    }
}
