//! A waiter in a quorum. The servers keep no queue, as their orders could differ: who waits asks again when it
//! hears that the lock was given back, after a random delay, so that not all ask at once.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use super::majority::Taken;
use crate::clock::{BootTime, Deadline};
use crate::lock::{StoreError, Timeout};
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::subscription::Subscription;

/// An idle waiter asks no more often than this, to find out what no hint said.
const FALLBACK: Duration = Duration::from_secs(5);
/// A holder that is not a redlock gives no hint: at first it is asked about this often, then more rarely.
const POLL_FOREIGN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Out of what time the random delay is.
const WINDOW: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// So many hints are heard before the time is looked at.
const MOST_HINTS: usize = 1000;
/// At least so long a divided majority waits for the other servers.
const GRACE: Duration = Duration::from_millis(50);

/// When to ask again for a lock that others want as well: there are no queues in a quorum.
pub struct Contender {
    /// The delay is a random part of this. It grows with every split vote and falls with every other.
    window: Duration,
    ask_at: Deadline,
    /// The last hint that was heard: every server gives the same one.
    hint: String,
    poll: Duration,
}

impl Contender {
    /// It may ask at once.
    pub fn new() -> Contender {
        Contender { window: WINDOW.0, ask_at: BootTime::now(), hint: String::new(), poll: Duration::ZERO }
    }

    /// How long a divided majority is to wait for the other servers. One that hangs does not hold up a handover,
    /// and one that is slow is waited for after a few split votes.
    pub fn grace(&self) -> Duration {
        self.window.max(GRACE)
    }

    /// Decides when to ask again after an answer for which it waited this long.
    pub fn note(&mut self, taken: &Taken, took: Duration) {
        let least = (took * 2).clamp(WINDOW.0, WINDOW.1);
        let pause = match taken {
            Taken::Granted(_) => Duration::ZERO,
            Taken::Split(_) => {
                self.window = (self.window * 2).clamp(least, WINDOW.1);
                self.delay()
            }
            Taken::Held { by_redlock: false, free_in, .. } => {
                self.poll = (self.poll * 3 / 2).clamp(POLL_FOREIGN.0, POLL_FOREIGN.1);
                let end = free_in.saturating_add(Duration::from_millis(2) + self.delay());
                self.poll.mul_f64(0.5 + fastrand::f64()).min(end)
            }
            Taken::Held { free_in, .. } => {
                self.window = (self.window / 2).clamp(least, WINDOW.1);
                let fallback = FALLBACK.mul_f64(1.0 + fastrand::f64() * 0.2);
                // A little after the end: the servers count in whole milliseconds.
                free_in.saturating_add(Duration::from_millis(2) + self.delay()).min(fallback)
            }
        };
        self.ask_at = Deadline::after(pause);
    }

    /// Waits for a hint, or for the time to ask. `false` when the patience ends first.
    pub fn wait(
        &mut self,
        ears: &mut [Option<Subscription>],
        patience: &Timeout,
    ) -> Result<bool, StoreError> {
        loop {
            for ear in ears.iter_mut() {
                self.hear(ear);
            }
            if self.ask_at.has_passed() {
                return Ok(true);
            }
            if patience.until.has_passed() {
                return Ok(false);
            }
            let timeout = self.ask_at.min(patience.until).poll_timeout();
            let fds = patience.interrupt.into_iter().chain(ears.iter().flatten().map(AsFd::as_fd));
            let mut polled: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut polled, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => {
                    let (store, why) = ("a quorum".to_owned(), errno.desc().to_owned());
                    return Err(StoreError::Unreachable { store, why, transient: false });
                }
            }
            if patience.interrupt.is_some() && polled.first().and_then(PollFd::any) == Some(true) {
                return Err(StoreError::Interrupted);
            }
        }
    }

    /// Takes note of all hints that came. An ear that is of no more use is dropped.
    fn hear(&mut self, ear: &mut Option<Subscription>) {
        // However many come, there is something else to be looked at.
        for _ in 0..MOST_HINTS {
            let Some(subscription) = ear else { return };
            match subscription.message(&Timeout::of(Duration::ZERO)) {
                Ok(hint) if hint == self.hint => {}
                Ok(hint) => {
                    self.hint = hint;
                    self.ask_at = self.ask_at.min(Deadline::after(self.delay()));
                }
                Err(RequestError::TimedOut) => return,
                Err(_) => *ear = None,
            }
        }
    }

    fn delay(&self) -> Duration {
        self.window.mul_f64(fastrand::f64())
    }
}
