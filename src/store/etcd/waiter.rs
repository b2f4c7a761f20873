//! A place in the queue of a lock: taken, kept, and left for the lock itself.

use std::time::Duration;

use super::calls::{EtcdCalls, EtcdQueue};
use super::keep_alive::Extension;
use super::lease_id::LeaseId;
use super::message::{Compare, EQUAL, PutRequest, TxnOperation, TxnRequest};
use super::predecessors::Predecessors;
use super::streams::{StreamMessage, Streams};
use crate::clock::{BootTime, Deadline};
use crate::lock::{AcquireOutcome, Busy, Request, StoreError, Timeout};
use crate::poll::{Backoff, jittered};
use crate::store::call_error::CallError;
use crate::store::net::check;
use crate::store::queue::{EntryData, Stage, holders, other_mode};

/// The number of seconds for which a place outlives its waiter: the others wait no longer for it.
const TTL: i64 = 3;
/// Behind so many others a place lives for a second more: their turns take about as long, and a thousand signs of life in
/// each second are too much for etcd.
const PLACES_PER_SECOND: usize = 100;
/// The time that etcd needs for one place, when it is busy.
const TIME_FOR_A_PLACE: Duration = Duration::from_millis(20);
/// The longest time for the renewal of another lock of this waiter: the place gives no sign of life then, either.
pub const LONGEST_RENEWAL: Duration = Duration::from_secs(1);
/// Before the queue is looked at again, where etcd did not answer.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A request that stands in the queue.
///
/// While it does its key has a lease of its own with a short TTL; with the lock it gets the one of the holder. Its
/// place is the create revision of the key, which stays.
pub struct EtcdWaiter {
    pub(super) request: Request,
    pub(super) id: LeaseId,
    /// Its place.
    pub(super) created: Option<i64>,
    /// The time that it lives without a sign of life.
    ttl: Duration,
    /// When the last sign of life was sent that etcd received.
    alive_at: BootTime,
    /// When the lease of the holder was made or extended.
    pub(super) lease_at: Option<BootTime>,
    /// Its making was not tried since the last look at the queue.
    may_prepare: bool,
    /// The lease was extended since it was made. A leader that was replaced may have answered, and its successor counts
    /// from its own election.
    pub(super) is_extended: bool,
    /// Where it was made so shortly before the grant that it was not extended: a majority had it then.
    pub(super) counted_from: Option<BootTime>,
    awaited: Predecessors,
    streams: Streams,
    backoff: Backoff,
    /// The answer of the last look.
    last: Option<Box<Busy>>,
    /// No new place is taken before this.
    rests_until: BootTime,
    pub(super) is_granted: bool,
}

impl EtcdWaiter {
    /// The lease of the holder may have been made by an attempt that found the lock busy.
    pub fn new(request: Request, last: Option<Box<Busy>>, made_at: Option<BootTime>) -> EtcdWaiter {
        EtcdWaiter {
            id: LeaseId::of(&request.token, &request.key),
            request,
            created: None,
            ttl: Duration::ZERO,
            alive_at: BootTime::now(),
            lease_at: made_at,
            may_prepare: true,
            is_extended: false,
            counted_from: None,
            awaited: Predecessors::default(),
            streams: Streams::default(),
            backoff: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
            last,
            rests_until: BootTime::now(),
            is_granted: false,
        }
    }

    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Takes the place, or looks what became of it.
    pub fn ask(&mut self, calls: &mut EtcdCalls, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        if let (None, Some(last), false) = (self.created, &self.last, self.rests_until.has_passed()) {
            return Ok(AcquireOutcome::Busy(last.clone()));
        }
        let answer = self.ask_etcd(calls, timeout);
        if answer.as_ref().is_err_and(StoreError::is_unknown) {
            self.rest();
        }
        answer
    }

    /// The number of places that preceded it in the last look.
    fn ahead(&self) -> usize {
        self.last.as_ref().and_then(|busy| busy.ahead).unwrap_or_default()
    }

    /// When etcd is too slow for so many waiters, those that have no place come back bit by bit.
    fn rest(&mut self) {
        let pause = TIME_FOR_A_PLACE * self.ahead() as u32;
        self.rests_until = Deadline::after(jittered(pause));
    }

    fn ask_etcd(&mut self, calls: &mut EtcdCalls, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        self.may_prepare = true;
        // A member that hangs has half of this time, and the place gives no sign of life there.
        let timeout = &match self.created {
            Some(_) if !calls.members.is_alone() => timeout.at_most(self.longest_silence()),
            _ => *timeout,
        };
        // The only one before us is gone: no look is needed.
        if let Some(created) = self.created
            && self.awaited.is_last
            && self.awaited.names.is_empty()
            && self.take(created, calls, timeout)?
        {
            return Ok(self.granted(created));
        }
        loop {
            check(timeout).map_err(|error| CallError::from(error).of(calls.members.name()))?;
            let created = match self.created {
                Some(created) => created,
                None => self.join(calls, timeout)?,
            };
            let EtcdQueue { mut entries, others, revision } =
                calls.queue(&self.request.key, created, timeout)?;
            calls.refuse_others(&self.request.key, &others, timeout)?;
            let Some(place) = entries.iter().position(|entry| entry.id == self.id) else {
                // It ended while we could not keep it: the next one is at the end of the queue.
                self.created = None;
                continue;
            };
            let is_held = entries[place].stage() == Some(Stage::Holding);
            let is_first = holders(&entries) > place;
            entries.truncate(place);
            if let Some(found) = other_mode(&entries, self.request.mode) {
                return Err(StoreError::OtherMode { key: self.request.key.clone(), found });
            }
            if is_first && is_held {
                // An answer was lost, maybe long ago: the lease is extended, and counts from this call on.
                self.counted_from = None;
                if calls.keep_alive(self.id.holding(), timeout)? > 0 {
                    return Ok(self.granted(created));
                }
                self.created = None;
            } else if is_first {
                if self.take(created, calls, timeout)? {
                    return Ok(self.granted(created));
                }
            } else {
                self.awaited = Predecessors::before(&self.request, calls, &entries, revision);
                self.streams.stop_listening();
                // The place is there.
                self.alive_at = self.alive_at.max(BootTime::now().minus(self.ttl / 3));
                let busy = Box::new(calls.busy(&self.request.key, &entries, timeout));
                self.last = Some(busy.clone());
                return Ok(AcquireOutcome::Busy(busy));
            }
        }
    }

    /// Takes a place at the end of the queue, or finds the one of an earlier attempt.
    fn join(&mut self, calls: &mut EtcdCalls, timeout: &Timeout) -> Result<i64, StoreError> {
        // The waiters before its former place say nothing about this one.
        (self.awaited, self.streams) = (Predecessors::default(), Streams::default());
        let name = calls.layout.name(&self.request.key, self.id, self.request.mode);
        let ttl = TTL + (self.ahead() / PLACES_PER_SECOND) as i64;
        self.ttl = Duration::from_secs(ttl.unsigned_abs());
        loop {
            let sent = BootTime::now();
            calls.grant(self.id.waiting(), ttl, timeout)?;
            self.alive_at = sent;
            self.streams.keep(self.id.waiting(), self.alive_at, self.ttl / 3, calls, timeout)?;
            let put = PutRequest {
                key: name.clone(),
                value: EntryData::waiting(&self.request).to_bytes(),
                lease: self.id.waiting(),
                ignore_value: false,
            };
            let request = TxnRequest {
                compare: vec![Compare::created(name.clone(), Vec::new(), EQUAL, 0)],
                success: vec![TxnOperation::put(put)],
                failure: vec![TxnOperation::range(calls.own_request(&self.request.key, self.id))],
            };
            // Without an answer the place may be there; without a lease it is not.
            let Some(done) = calls.txn(request, timeout)? else { continue };
            let joined = if done.succeeded { Some(done.revision()) } else { None };
            let known = || done.into_keys().find(|kv| kv.key == name).map(|kv| kv.create_revision);
            if let Some(created) = joined.or_else(known) {
                self.created = Some(created);
                return Ok(created);
            }
        }
    }

    /// Waits for a reason to ask again.
    pub fn wait(&mut self, calls: &mut EtcdCalls, timeout: &Timeout) -> Result<bool, StoreError> {
        if self.created.is_none() {
            timeout.pause_until(self.rests_until)?;
            return Ok(self.rests_until.has_passed());
        }
        if self.awaited.is_over() {
            return Ok(true);
        }
        loop {
            if !self.show_life(calls, timeout)? {
                if self.created.is_none() {
                    self.rest();
                }
                return self.pause(timeout);
            }
            let due = self.alive_at.plus(self.longest_silence());
            match self.streams.next(calls, &timeout.before(due)) {
                Ok(StreamMessage::Queue(Some(answer))) if !answer.canceled => {
                    self.awaited.note(&answer);
                    if self.awaited.is_over() {
                        return Ok(true);
                    }
                    self.prepare(calls, timeout);
                }
                Ok(StreamMessage::Place(Some(answer))) => self.note(answer),
                Ok(StreamMessage::Queue(_) | StreamMessage::Place(None)) => {
                    self.leave_member(calls);
                    return self.pause(timeout);
                }
                Err(CallError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) if timeout.until.has_passed() => return Ok(false),
                Err(_) => {}
            }
        }
    }

    /// A member that says nothing of the place for so long is left while another one can still keep it.
    fn longest_silence(&self) -> Duration {
        self.ttl * 2 / 3
    }

    fn leave_member(&mut self, calls: &mut EtcdCalls) {
        calls.members.next_server();
        self.streams = Streams::default();
    }

    fn note(&mut self, (sent, is_there): Extension) {
        match is_there {
            true => {
                self.alive_at = sent;
                self.backoff.reset();
            }
            false => self.created = None,
        }
    }

    /// Keeps the place and the lease of the holder alive, and listens. `false` when it is time to look at the queue again.
    fn show_life(&mut self, calls: &mut EtcdCalls, timeout: &Timeout) -> Result<bool, StoreError> {
        if let Some(answer) = self.streams.last_extension() {
            self.note(answer);
        }
        if self.created.is_none() || self.alive_at.plus(self.ttl).has_passed() {
            return Ok(false);
        }
        if self.alive_at.plus(self.longest_silence()).has_passed() {
            self.leave_member(calls);
        }
        let place = self.streams.keep(self.id.waiting(), self.alive_at, self.ttl / 3, calls, timeout);
        match place.and_then(|()| self.streams.listen(&self.awaited, calls, timeout)) {
            Ok(()) => {}
            Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
            Err(_) => return Ok(false),
        }
        if self.lease_at.is_some_and(|at| at.plus(self.request.ttl.duration() / 3).has_passed()) {
            let sent = BootTime::now();
            let left = calls.keep_alive(self.id.holding(), timeout);
            (self.lease_at, self.is_extended) = (left.is_ok_and(|left| left > 0).then_some(sent), true);
        }
        Ok(true)
    }

    fn pause(&mut self, timeout: &Timeout) -> Result<bool, StoreError> {
        timeout.pause_until(Deadline::after(self.backoff.pause()))?;
        Ok(true)
    }

    /// There is time to prepare the grant: to look at who is before us, which takes longer in a longer queue, and to
    /// make the lease of the holder, which takes a write to the disks of a majority.
    pub fn prepare(&mut self, calls: &mut EtcdCalls, timeout: &Timeout) {
        if let Some(created) = self.created.filter(|_| std::mem::take(&mut self.awaited.may_be_last))
            && let Ok(queue) = calls.queue(&self.request.key, created, timeout)
        {
            self.awaited.confirm_last(queue.entries.into_iter().take_while(|entry| entry.id != self.id));
        }
        let may_prepare = std::mem::replace(&mut self.may_prepare, false);
        if may_prepare && self.lease_at.is_none() && self.created.is_some() {
            let (sent, seconds) = (BootTime::now(), self.request.ttl.duration().as_secs() as i64);
            let is_new = calls.grant(self.id.holding(), seconds, timeout).ok();
            (self.lease_at, self.is_extended) = (is_new.map(|_| sent), is_new == Some(false));
        }
    }
}
