//! The place of this process in the queue of a lock, or of each of several, and when to ask whether one was granted.

use std::time::Duration;

use super::connection::Connection;
use super::keys::KeyNames;
use super::script::{AcquireReply, BusyReply, OneReply, Queueing};
use super::subscription::{Message, Subscription};
use crate::clock::{BootTime, Deadline};
use crate::lock::{AcquireOutcome, Busy, OneOutcome, Request, Result, StoreError, Timeout};
use crate::poll::{Backoff, jittered};
use crate::store::net::{RequestError, pause};

/// A waiter asks this often in case a message got lost.
const FALLBACK: Duration = Duration::from_secs(5);
/// The first waiter takes over when a lease ends. The others ask this long afterwards whether it did: for short leases
/// no earlier than they would in any case, and early enough to find another one.
const BEHIND: [Duration; 2] = [Duration::from_millis(400), Duration::from_millis(2100)];
/// When a claim ends, all waiters ask within this time.
const CLAIM_SPREAD: Duration = Duration::from_millis(150);
/// A waiter that watches a claim asks this long afterwards: later than the one who released the lock, see
/// `CONFIRMATION` in script/handover.rs, and early enough for the waiters to show themselves before the claim ends.
const WATCH: Duration = Duration::from_secs(1);
/// Another program's release wakes nobody: the first waiter asks this often, 65 to 195 ms apart.
const FOREIGN_POLL: Duration = Duration::from_millis(130);
/// The time between two subscriptions while they break as soon as they begin.
const RESUBSCRIBE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

pub struct QueuePlace {
    /// More than one where one of several locks is wanted.
    pub requests: Vec<Request>,
    /// The subscription as far as is known: only a read shows that it broke.
    pub subscription: Option<Subscription>,
    subscribed_at: BootTime,
    resubscribe: Backoff,
    subscribe_at: Deadline,
    /// The place as the server numbered it; empty before it did.
    pub ticket: String,
    /// When to ask again without a message.
    ask_at: Deadline,
    /// When to ask in any case, which also keeps the place from being forgotten.
    fallback_at: Deadline,
    /// The longest TTL that a holder of each lock had.
    ttls: Vec<Duration>,
    /// When a lease that was lost with the data of the server has ended for sure.
    data_lost_until: Option<Deadline>,
    pub is_prepared: bool,
    pub is_granted: bool,
}

impl QueuePlace {
    pub fn new(requests: Vec<Request>) -> QueuePlace {
        QueuePlace {
            ttls: vec![Duration::ZERO; requests.len()],
            requests,
            subscription: None,
            subscribed_at: BootTime::now(),
            resubscribe: Backoff::new(RESUBSCRIBE[0], RESUBSCRIBE[1]),
            subscribe_at: BootTime::now(),
            ticket: String::new(),
            ask_at: BootTime::now(),
            fallback_at: BootTime::now(),
            data_lost_until: None,
            is_prepared: false,
            is_granted: false,
        }
    }

    /// Subscribes on this connection, which is used for nothing else.
    pub fn listen_on(&mut self, connection: Connection, timeout: &Timeout) -> Result<(), RequestError> {
        let channel = |request: &Request| KeyNames::of(&request.key).channel + request.token.expose();
        let mut channels: Vec<String> = self.requests.iter().map(channel).collect();
        // Keys with the same hash tag have the same channel.
        channels.sort();
        channels.dedup();
        self.subscription = Some(Subscription::open(connection, &channels, timeout)?);
        self.subscribed_at = BootTime::now();
        Ok(())
    }

    pub fn queueing(&self) -> Queueing {
        match self.data_lost_until {
            Some(until) if until.has_passed() => Queueing::AfterDataLoss,
            _ => Queueing::Yes,
        }
    }

    /// Takes note of a reply, and decides when to ask again.
    pub fn note(&mut self, reply: AcquireReply) -> AcquireOutcome {
        self.fallback_at = Deadline::after(fallback());
        self.is_granted = matches!(reply, AcquireReply::Granted { .. });
        match reply {
            AcquireReply::Granted { fences, permits } => AcquireOutcome::granted_permits(fences, permits),
            AcquireReply::DataLost { ticket } => {
                AcquireOutcome::Busy(self.note_lost_data(ticket, &[0]).into())
            }
            AcquireReply::Busy(reply) => {
                self.note_busy(std::slice::from_ref(&*reply));
                AcquireOutcome::Busy(reply.busy.into())
            }
        }
    }

    /// The same for one of several locks.
    pub fn note_one(&mut self, reply: OneReply) -> OneOutcome {
        self.fallback_at = Deadline::after(fallback());
        self.is_granted = matches!(reply, OneReply::Granted { .. });
        match reply {
            OneReply::Granted { place, fence } => OneOutcome::granted(place, fence),
            OneReply::DataLost { ticket, places } => {
                OneOutcome::busy([self.note_lost_data(ticket, &places)], &self.requests)
            }
            OneReply::Busy(replies) => {
                self.note_busy(&replies);
                OneOutcome::busy(replies.into_iter().map(|reply| reply.busy), &self.requests)
            }
        }
    }

    /// The server knows nothing of the locks at these places.
    fn note_lost_data(&mut self, ticket: String, places: &[usize]) -> Busy {
        // The leases were renewed before the data was lost.
        let longest =
            places.iter().filter_map(|place| self.ttls.get(*place)).max().copied().unwrap_or_default();
        let until = *self.data_lost_until.get_or_insert_with(|| Deadline::after(longest));
        self.ticket = ticket;
        self.ask_at = until.min(Deadline::after(fallback()));
        Busy::by_unknown(self.requests[0].key.clone())
    }

    fn note_busy(&mut self, replies: &[BusyReply]) {
        if replies.iter().any(|reply| reply.newly_queued) && !self.ticket.is_empty() {
            // We were dropped from the queue, as somebody could not wake us.
            self.subscription = None;
        }
        self.data_lost_until = None;
        for reply in replies {
            self.ticket.clone_from(&reply.ticket);
            let place = self.requests.iter().position(|request| request.key == reply.busy.key);
            if let Some(ttl) = place.and_then(|place| self.ttls.get_mut(place)) {
                *ttl = reply.ttl.max(*ttl);
            }
        }
        let pause = replies.iter().map(pause_behind).min().unwrap_or(FALLBACK);
        self.ask_at = Deadline::after(pause);
    }

    /// Waits for a message, or for the time to ask again. `false` when the timeout ends first.
    pub fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        loop {
            let Some(subscription) = &mut self.subscription else {
                return self.wait_to_subscribe(timeout);
            };
            match subscription.message(&timeout.before(self.ask_at)) {
                Ok(Message::Ask) => return Ok(true),
                // The holder is alive: ask when its lease ends.
                Ok(Message::First(left)) => {
                    let end = Deadline::after(just_after(left)).min(self.fallback_at);
                    // Another of several locks may be free sooner.
                    self.ask_at = if self.requests.len() > 1 { end.min(self.ask_at) } else { end };
                    if timeout.until.has_passed() {
                        return Ok(false);
                    }
                }
                Ok(Message::Watch) => {
                    self.ask_at = self.ask_at.min(Deadline::after(spread(WATCH, 0.3)));
                }
                Err(RequestError::TimedOut) => return Ok(self.ask_at.has_passed()),
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) => {
                    self.subscription = None;
                    if self.subscribed_at.plus(RESUBSCRIBE[1]).has_passed() {
                        self.resubscribe.reset();
                    }
                    self.subscribe_at = self.subscribed_at.plus(self.resubscribe.pause());
                }
            }
        }
    }

    /// Waits until it is time to subscribe again, which mostly is at once.
    fn wait_to_subscribe(&self, timeout: &Timeout) -> Result<bool> {
        match pause(self.subscribe_at.left(), timeout) {
            Ok(()) => Ok(true),
            Err(RequestError::Interrupted) => Err(StoreError::Interrupted),
            Err(_) => Ok(false),
        }
    }
}

/// How long to wait before asking again, if no message comes.
fn pause_behind(reply: &BusyReply) -> Duration {
    let is_first = reply.busy.ahead == Some(0);
    let left = reply.busy.holder.as_ref().and_then(|holder| holder.left);
    match left.map(just_after) {
        left if is_first && reply.ttl.is_zero() => jittered(FOREIGN_POLL).min(left.unwrap_or(Duration::MAX)),
        Some(left) if is_first => left.min(fallback()),
        // The new holder may be dead, and so may those in between.
        Some(left) if reply.is_claim => (left + CLAIM_SPREAD.mul_f64(fastrand::f64())).min(fallback()),
        Some(left) => (left + BEHIND[0]).max(FALLBACK.min(left + BEHIND[1])).min(fallback()),
        None => fallback(),
    }
}

/// `duration` and up to this part of it more, so that the waiters of a server do not ask in step.
fn spread(duration: Duration, part: f64) -> Duration {
    duration.mul_f64(1.0 + fastrand::f64() * part)
}

pub fn fallback() -> Duration {
    spread(FALLBACK, 0.2)
}

/// A little after a lease has ended: the server's clock decides, in whole milliseconds.
fn just_after(left: Duration) -> Duration {
    left + Duration::from_millis(2 + fastrand::u64(..3))
}
