use std::time::Duration;

use super::keys::KeyNames;
use super::net::connection::Connection;
use super::net::failure::RequestError;
use super::net::wait::pause;
use super::reply::{Taken, kind_name};
use super::subscription::{News, Subscription};
use crate::clock::{BootTime, Deadline};
use crate::lock::{AcquireOutcome, Busy, Request, StoreError, Timeout};

/// Asking is the fallback for a wake-up that got lost; an idle waiter asks no more often than this.
const FALLBACK: Duration = Duration::from_secs(5);
/// The first in line takes over when a lease ends. The others ask so long afterwards whether it did: but for short leases
/// no earlier than they would in any case, and early enough to find another.
const BEHIND: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(2100));
/// When a claim ends, all in line ask within this time.
const IN_TURN: Duration = Duration::from_millis(150);
/// Who is told to watch a grant asks so long afterwards: later than who gave it, see `CONFIRMATION` in release.rs, and early
/// enough for those in line to show themselves before the claim ends.
const WATCH: Duration = Duration::from_secs(1);
/// A holder that is not a redlock wakes nobody, so the first in line asks: at first this often, then
/// ever more rarely.
const POLL_FOREIGN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// From one subscription to the next, while they break as soon as they begin: at first and at most.
const LISTEN_ANEW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// This process in the queue.
pub struct QueuePlace {
    pub request: Request,
    subscription: Option<Subscription>,
    listening_since: BootTime,
    /// The last one broke: how long after its begin there may be another, and when that is.
    spacing: Duration,
    listen_at: BootTime,
    ticket: String,
    /// When to ask again without being told.
    ask_at: Option<Deadline>,
    /// When to ask in any case: that also keeps our place from being forgotten.
    fallback_at: Option<Deadline>,
    poll: Duration,
    /// The longest lease that was seen.
    ttl: Duration,
    /// When a lease that vanished with the data of the server has ended for sure.
    vanished_until: Option<Deadline>,
    is_known: bool,
    is_granted: bool,
}

impl QueuePlace {
    /// Not in the queue so far, and not listening.
    pub fn new(request: Request) -> QueuePlace {
        QueuePlace {
            request,
            subscription: None,
            listening_since: BootTime::now(),
            spacing: Duration::ZERO,
            listen_at: BootTime::now(),
            ticket: String::new(),
            ask_at: None,
            fallback_at: None,
            poll: Duration::ZERO,
            ttl: Duration::ZERO,
            vanished_until: None,
            is_known: false,
            is_granted: false,
        }
    }

    /// The member of the queue that stands for a request.
    pub fn place(request: &Request) -> String {
        let kind = kind_name(request.mode);
        format!("{} {kind} {}", request.token.expose(), request.metadata.to_json())
    }

    /// Whether there is a subscription, as far as is known: that it broke shows when it is read.
    pub fn is_listening(&self) -> bool {
        self.subscription.is_some()
    }

    /// Can be woken on this connection from now on, which is used for nothing else.
    pub fn listen_on(&mut self, connection: Connection, patience: &Timeout) -> Result<(), RequestError> {
        let channel = KeyNames::of(&self.request.key).channel + self.request.token.expose();
        self.subscription = Some(Subscription::open(connection, &channel, patience)?);
        self.listening_since = BootTime::now();
        Ok(())
    }

    /// The server that was listened to is not the one to listen to.
    pub fn listen_elsewhere(&mut self) {
        self.subscription = None;
    }

    /// Whether this is asked for the first time.
    pub fn is_new(&mut self) -> bool {
        !std::mem::replace(&mut self.is_known, true)
    }

    /// The lock was granted to this place.
    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// The place in the queue as the server numbered it; empty before it gave one.
    pub fn ticket(&self) -> &str {
        &self.ticket
    }

    /// How to ask: see `take.lua`.
    pub fn mode(&self) -> &'static str {
        match self.vanished_until {
            Some(until) if until.has_passed() => "insist",
            _ => "queue",
        }
    }

    /// Takes note of an answer, and decides when to ask again.
    pub fn note(&mut self, taken: Taken) -> AcquireOutcome {
        self.fallback_at = Some(Deadline::after(fallback()));
        self.is_granted = matches!(taken, Taken::Granted(_));
        match taken {
            Taken::Granted(fences) => AcquireOutcome::granted(fences),
            Taken::Vanished { ticket } => {
                // The lease was renewed at the latest when the data was lost, which is over now.
                let until = *self.vanished_until.get_or_insert_with(|| Deadline::after(self.ttl));
                self.ticket = ticket;
                self.ask_at = Some(until.min(Deadline::after(fallback())));
                AcquireOutcome::Busy(Busy::by_unknown(self.request.key.clone()))
            }
            Taken::Busy { busy, ticket, ttl, newly_queued, is_claim } => {
                if newly_queued && !self.ticket.is_empty() {
                    // We were in line and were dropped: somebody could not wake us. Listen anew.
                    self.subscription = None;
                }
                self.vanished_until = None;
                self.ticket = ticket;
                self.ttl = self.ttl.max(ttl);
                let first = busy.ahead == Some(0);
                let left = busy.holder.as_ref().and_then(|holder| holder.left);
                let pause = match left.map(just_after) {
                    left if first && ttl.is_zero() => self.next_poll().min(left.unwrap_or(Duration::MAX)),
                    Some(left) if first => left.min(fallback()),
                    // Who got it may be dead, and so may those in between.
                    Some(left) if is_claim => (left + IN_TURN.mul_f64(fastrand::f64())).min(fallback()),
                    Some(left) => (left + BEHIND.0).max(FALLBACK.min(left + BEHIND.1)).min(fallback()),
                    None => fallback(),
                };
                self.ask_at = Some(Deadline::after(pause));
                AcquireOutcome::Busy(*busy)
            }
        }
    }

    /// Waits for a message, or for the time to ask again. `false` when the patience ends first.
    pub fn listen(&mut self, patience: &Timeout) -> Result<bool, StoreError> {
        let fallback_at = self.fallback_at.unwrap_or(BootTime::now());
        loop {
            let ask_at = self.ask_at.unwrap_or(BootTime::now());
            let Some(subscription) = &mut self.subscription else { return self.pause(patience) };
            let until = Timeout { until: patience.until.min(ask_at), ..*patience };
            match subscription.listen(&until) {
                Ok(News::Ask) => return Ok(true),
                // The holder is alive: ask when its lease ends.
                Ok(News::First(left)) => {
                    self.ask_at = Some(Deadline::after(just_after(left)).min(fallback_at));
                    if patience.until.has_passed() {
                        return Ok(false);
                    }
                }
                Ok(News::Watch) => {
                    self.ask_at =
                        Some(ask_at.min(Deadline::after(WATCH.mul_f64(1.0 + fastrand::f64() * 0.3))));
                }
                Err(RequestError::TimedOut) if ask_at.has_passed() => return Ok(true),
                Err(RequestError::TimedOut) => return Ok(false),
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                Err(
                    RequestError::Broken(_)
                    | RequestError::Denied(_)
                    | RequestError::Refused(_)
                    | RequestError::Unusable(_),
                ) => {
                    self.subscription = None;
                    let (least, most) = LISTEN_ANEW;
                    let has_lasted = self.listening_since.plus(most).has_passed();
                    self.spacing = if has_lasted { least } else { (self.spacing * 2).clamp(least, most) };
                    let spacing = self.spacing.mul_f64(0.5 + fastrand::f64());
                    self.listen_at = self.listening_since.plus(spacing);
                }
            }
        }
    }

    /// Waits until it is time to listen anew, which mostly is at once.
    fn pause(&self, patience: &Timeout) -> Result<bool, StoreError> {
        match pause(self.listen_at.left(), patience) {
            Ok(()) => Ok(true),
            Err(RequestError::Interrupted) => Err(StoreError::Interrupted),
            Err(_) => Ok(false),
        }
    }

    fn next_poll(&mut self) -> Duration {
        let (least, most) = POLL_FOREIGN;
        self.poll = (self.poll * 3 / 2).clamp(least, most);
        self.poll.mul_f64(0.5 + fastrand::f64())
    }
}

/// Spread out, so that the waiters of a server do not ask in step.
fn fallback() -> Duration {
    FALLBACK.mul_f64(1.0 + fastrand::f64() * 0.2)
}

/// A little after a lease has ended: the server's clock decides, in whole milliseconds.
fn just_after(left: Duration) -> Duration {
    left + Duration::from_millis(2 + fastrand::u64(..3))
}
