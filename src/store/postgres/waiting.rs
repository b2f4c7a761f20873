//! The wait in a queue: the notifications that end it, and when to ask again without one.

use std::time::Duration;

use super::answer::Seen;
use super::message::Statement;
use super::store::Postgres;
use crate::clock::Deadline;
use crate::lock::{AcquireOutcome, Request, Result, StoreError, Timeout};
use crate::poll::jittered;

/// The first waiter asks this often, whatever happens, and the next three whether those ahead are alive.
const INTERVAL: Duration = Duration::from_secs(1);
/// The others, which a handover notifies when they are the first.
const LONG_INTERVAL: Duration = Duration::from_secs(5);
/// Behind a pooler no notification arrives, so the next waiter asks this often, and the one after it half as often.
const POOLED_INTERVAL: Duration = Duration::from_millis(200);
/// While a transaction with the fencing token goes on, nobody tells when it ends.
const SHORT_INTERVAL: Duration = Duration::from_millis(100);

impl Postgres {
    /// Decides when to ask again.
    pub(super) fn wait_behind(&mut self, seen: Seen, request: &Request) -> AcquireOutcome {
        self.ask_at = Deadline::after(self.pause_behind(&seen));
        AcquireOutcome::Busy(seen.busy(request.key.clone()).into())
    }

    pub(super) fn pause_behind(&self, seen: &Seen) -> Duration {
        let left = seen.holder.as_ref().and_then(|holder| holder.left).unwrap_or(SHORT_INTERVAL);
        match seen.ahead {
            0 if seen.is_over => SHORT_INTERVAL,
            place @ (0 | 1) if self.database.address.is_pooled => POOLED_INTERVAL * (place as u32 + 1),
            0 => left.clamp(Duration::from_millis(1), INTERVAL),
            // Not all of them at once.
            4.. if !self.database.address.is_pooled => jittered(LONG_INTERVAL),
            _ => jittered(INTERVAL),
        }
    }

    /// The channel that wakes this waiter. A pooler keeps no session to listen in.
    pub(super) fn channel(&self) -> String {
        if self.database.address.is_pooled { String::new() } else { self.channel.clone() }
    }

    /// Begins to listen there, on a connection that does not.
    pub(super) fn listen(&self) -> Option<Statement> {
        let is_listening =
            self.database.connection.as_ref().is_some_and(|connection| connection.is_listening);
        let may_listen = !is_listening && !self.database.address.is_pooled;
        may_listen.then(|| Statement::plain(format!("LISTEN {}", self.channel)))
    }

    /// A transaction was carried out, with the statement of [`Postgres::listen`] or not.
    pub(super) fn note_listening(&mut self, listens: bool) {
        if let Some(connection) = self.database.connection.as_mut().filter(|_| listens) {
            connection.is_listening = true;
        }
    }

    pub(super) fn wait_for_news(&mut self, timeout: &Timeout) -> Result<bool> {
        let until = timeout.before(self.ask_at);
        let is_cut_short = self.ask_at > timeout.until;
        if let Some(connection) =
            self.database.connection.as_mut().filter(|connection| connection.is_listening)
        {
            match connection.wait(&until) {
                Ok(is_told) => {
                    self.is_told |= is_told;
                    return Ok(is_told || !is_cut_short);
                }
                Err(error) => {
                    if let error @ StoreError::Interrupted = error.of("") {
                        return Err(error);
                    }
                    // Not all of those who lost their connection at once.
                    self.database.connection = None;
                    timeout.pause(SHORT_INTERVAL.mul_f64(0.5 + fastrand::f64()).min(timeout.until.left()))?;
                    return Ok(true);
                }
            }
        }
        while !until.until.has_passed() {
            until.pause(until.until.left())?;
        }
        Ok(!is_cut_short)
    }
}
