//! A place in the queue of a lock: taken, kept, and left for the lock itself.

use std::time::Duration;

use tonic::Streaming;

use super::key_data::KeyData;
use super::layout::holders;
use super::lease_id::{LeaseId, LeaseStage};
use super::ledger::{EtcdLedger, EtcdQueue, txn};
use super::message::{
    Compare, EQUAL, NO_PUT, PutRequest, TxnOperation, TxnRequest, WatchCreateRequest, WatchResponse,
};
use super::predecessors::Predecessors;
use super::recipe::{has_no_lease, read_itself};
use crate::clock::{BootTime, Deadline};
use crate::lock::{AcquireOutcome, FencingToken, Request, StoreError, Timeout};
use crate::store::call_error::CallError;
use crate::store::net::check;

/// How long a place lives when the waiter died: the others wait no longer for it.
const TTL: i64 = 3;
/// From one sign of life to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// A sign of life is not begun with less time than this, unless the place is about to end.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(200);
/// The place gives no sign of life while the lock is asked for. A member that hangs has half of this time.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);
/// The longest time for the renewal of another lock of this waiter: the place gives no sign of life then, either.
pub const LONGEST_RENEWAL: Duration = Duration::from_secs(1);
/// Before the queue is looked at again, where etcd could not be asked to tell.
const PAUSE: Duration = Duration::from_millis(200);

/// A request that stands in the queue.
///
/// While it does its key has a lease of its own with a short TTL; with the lock it gets the one of the holder. Its place is the
/// create revision of the key, which stays.
pub struct EtcdWaiter {
    request: Request,
    id: LeaseId,
    /// Its place.
    created: Option<i64>,
    /// When the last sign of life was sent.
    alive_at: BootTime,
    /// When the lease of the holder was made or extended.
    lease_at: Option<BootTime>,
    /// Its making was not tried since the last look at the queue.
    may_prepare: bool,
    /// The lease was extended since it was made. A leader that was replaced may have answered, and its successor counts from
    /// its own election.
    is_extended: bool,
    /// Where it was made so shortly before the grant that it was not extended: a majority had it then.
    counted_from: Option<BootTime>,
    awaited: Predecessors,
    watch: Option<(u32, Streaming<WatchResponse>)>,
    is_granted: bool,
}

impl EtcdWaiter {
    /// The lease of the holder may have been made by an attempt that found the lock busy.
    pub fn new(request: Request, made_at: Option<BootTime>) -> EtcdWaiter {
        EtcdWaiter {
            id: LeaseId::of(&request.token, &request.key),
            request,
            created: None,
            alive_at: BootTime::now(),
            lease_at: made_at,
            may_prepare: true,
            is_extended: false,
            counted_from: None,
            awaited: Predecessors::default(),
            watch: None,
            is_granted: false,
        }
    }

    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    pub fn counted_from(&self) -> Option<BootTime> {
        self.counted_from
    }

    /// Takes the place, or looks what became of it.
    pub fn ask(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        self.may_prepare = true;
        let timeout = &self.created.map_or(*timeout, |_| timeout.at_most(LONGEST_ATTEMPT));
        // The only one before us is gone: no look is needed.
        if let Some(created) = self.created
            && self.awaited.is_last
            && self.awaited.names.is_empty()
            && self.take(created, ledger, timeout)?
        {
            return Ok(self.granted(created));
        }
        loop {
            check(timeout).map_err(|error| CallError::from(error).of(ledger.members.name()))?;
            let created = match self.created {
                Some(created) => created,
                None => self.join(ledger, timeout)?,
            };
            let EtcdQueue { mut entries, others, revision } =
                ledger.queue(&self.request.key, created, timeout)?;
            ledger.refuse_others(&self.request.key, &others, timeout)?;
            let Some(place) = entries.iter().position(|entry| entry.id == self.id) else {
                // It ended while we could not keep it: the next one is at the end of the queue.
                self.created = None;
                continue;
            };
            let is_held = entries[place].stage() == Some(LeaseStage::Holding);
            let is_first = holders(&entries) > place;
            entries.truncate(place);
            if let Some(other) = entries.iter().find(|entry| !entry.mode.goes_with(self.request.mode)) {
                return Err(StoreError::OtherMode { key: self.request.key.clone(), found: other.mode });
            }
            if is_first && is_held {
                // An answer was lost, maybe long ago: the lease is extended, and counts from this call on.
                self.counted_from = None;
                if ledger.keep_alive(self.id.holding(), timeout)? > 0 {
                    return Ok(self.granted(created));
                }
                self.created = None;
            } else if is_first {
                if self.take(created, ledger, timeout)? {
                    return Ok(self.granted(created));
                }
            } else {
                self.awaited = Predecessors::before(&self.request, ledger, &entries, revision);
                self.watch = None;
                return Ok(AcquireOutcome::Busy(ledger.busy(&self.request.key, &entries, timeout).into()));
            }
        }
    }

    fn granted(&mut self, created: i64) -> AcquireOutcome {
        self.is_granted = true;
        AcquireOutcome::Granted(vec![FencingToken(created.unsigned_abs())])
    }

    /// Takes a place at the end of the queue, or finds the one of an earlier attempt.
    fn join(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<i64, StoreError> {
        // Who stood before the place that it had says nothing about this one.
        self.awaited = Predecessors::default();
        let Request { key, mode, .. } = &self.request;
        let name = ledger.layout.name(key, self.id, *mode);
        loop {
            let sent = BootTime::now();
            ledger.grant(self.id.waiting(), TTL, timeout)?;
            self.alive_at = sent;
            let put = PutRequest {
                key: name.clone(),
                value: KeyData::waiting(&self.request).to_bytes(),
                lease: self.id.waiting(),
                ignore_value: false,
            };
            let request = TxnRequest {
                compare: vec![Compare::created(name.clone(), Vec::new(), EQUAL, 0)],
                success: vec![TxnOperation::put(put)],
                failure: vec![TxnOperation::range(ledger.own_request(key, self.id))],
            };
            // Without an answer the place may be there; without a lease it is not.
            let Some(done) = ledger.txn(request, timeout)? else { continue };
            let joined = if done.succeeded { Some(done.revision()) } else { None };
            let known = || done.into_keys().find(|kv| kv.key == name).map(|kv| kv.create_revision);
            if let Some(created) = joined.or_else(known) {
                self.created = Some(created);
                return Ok(created);
            }
        }
    }

    /// Gives our key the lease of the holder.
    ///
    /// Unless the lease is fresh it is extended at the same time, so it counts from this call on.
    fn take(&mut self, created: i64, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<bool, StoreError> {
        let Request { key, mode, ttl, .. } = &self.request;
        let (name, lease) = (ledger.layout.name(key, self.id, *mode), self.id.holding());
        let ours = Compare::created(name.clone(), Vec::new(), EQUAL, created);
        let compare = vec![ours, has_no_lease(&ledger.layout, key)];
        let value = KeyData::granted_in_turn(&self.request).to_bytes();
        let put = PutRequest { key: name, value, lease, ignore_value: false };
        let failure = vec![read_itself(&ledger.layout, key)];
        let request = TxnRequest { compare, success: vec![TxnOperation::put(put)], failure };
        loop {
            if self.lease_at.is_none() {
                let sent = BootTime::now();
                let is_new = ledger.grant(lease, ttl.duration().as_secs() as i64, timeout)?;
                (self.lease_at, self.is_extended) = (Some(sent), !is_new);
            }
            let made_at = self.lease_at.filter(|_| !self.is_extended);
            self.counted_from = made_at.filter(|at| BootTime::now().since(*at) < ttl.fresh_for());
            let is_fresh = self.counted_from.is_some();
            let (left, done) = ledger.members.call(timeout, |client| {
                let request = request.clone();
                async move {
                    match is_fresh {
                        true => Ok((1, txn(&client, request).await?)),
                        false => tokio::try_join!(client.keep_alive(lease), txn(&client, request)),
                    }
                }
            })?;
            match done {
                // It ended while we waited.
                None => self.lease_at = None,
                Some(done) if !done.succeeded => {
                    ledger.refuse_itself(key, &done.into_keys().collect::<Vec<_>>())?;
                    return Ok(false);
                }
                Some(_) if left > 0 => return Ok(true),
                Some(_) => {
                    (self.lease_at, self.created) = (None, None);
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for a reason to ask again.
    pub fn wait(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<bool, StoreError> {
        if self.created.is_none() || self.awaited.is_over() {
            return Ok(true);
        }
        loop {
            if !self.show_life(ledger, timeout)? || !self.listen(ledger, timeout)? {
                return self.pause(timeout);
            }
            let Some((_, watch)) = &mut self.watch else { return self.pause(timeout) };
            let news = ledger.members.wait(&timeout.before(self.alive_at.plus(INTERVAL)), watch.message());
            match news.map_err(|error| error.of(ledger.members.name())) {
                Ok(Ok(Some(answer))) if !answer.canceled => {
                    self.awaited.note(&answer);
                    if self.awaited.is_over() {
                        return Ok(true);
                    }
                    self.prepare(ledger, timeout);
                }
                Ok(_) => {
                    // A member without a leader ends its watches.
                    ledger.members.next_server();
                    self.watch = None;
                    return self.pause(timeout);
                }
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) if timeout.until.has_passed() => return Ok(false),
                Err(_) => {}
            }
        }
    }

    /// Keeps the place, if that is due. `false` when it is time to look at the queue again.
    fn show_life(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<bool, StoreError> {
        let due = self.alive_at.plus(INTERVAL);
        let is_urgent = due.plus(INTERVAL).has_passed();
        if !due.has_passed() || (timeout.until.left() < SHORTEST_ATTEMPT && !is_urgent) {
            return Ok(true);
        }
        let sent = BootTime::now();
        match ledger.keep_alive(self.id.waiting(), timeout) {
            Ok(1..) => self.alive_at = sent,
            Ok(_) => self.created = None,
            Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
            Err(_) => return Ok(false),
        }
        if self.lease_at.is_some_and(|at| at.plus(self.request.ttl.duration() / 3).has_passed()) {
            let left = ledger.keep_alive(self.id.holding(), timeout);
            (self.lease_at, self.is_extended) = (left.is_ok_and(|left| left > 0).then_some(sent), true);
        }
        Ok(self.created.is_some())
    }

    /// Has etcd tell of those before us. `false` when it does not.
    fn listen(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<bool, StoreError> {
        let connection = ledger.members.connections();
        if self.watch.as_ref().is_some_and(|(on, _)| *on == connection) {
            return Ok(true);
        }
        let Predecessors { key, range_end, revision, .. } = &self.awaited;
        let request = WatchCreateRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            start_revision: revision + 1,
            // An exclusive or shared waiter also hears of puts: one says that the owner was granted the lock. A semaphore
            // would send one for every permit, so its waiters hear of deletions only.
            filters: if range_end.is_empty() { Vec::new() } else { vec![NO_PUT] },
        };
        let watch = ledger.members.call(timeout, move |client| {
            let request = request.clone();
            async move { client.watch(request).await }
        });
        match watch {
            Ok(watch) => self.watch = Some((ledger.members.connections(), watch)),
            Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    fn pause(&self, timeout: &Timeout) -> Result<bool, StoreError> {
        let until = Deadline::after(PAUSE).min(timeout.until);
        while !until.has_passed() {
            timeout.pause(until.left())?;
        }
        Ok(true)
    }

    /// There is time to prepare the grant: to look at who is before us, which takes longer in a longer queue, and to make the
    /// lease of the holder, which takes a write to the disks of a majority.
    pub fn prepare(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) {
        if let Some(created) = self.created.filter(|_| std::mem::take(&mut self.awaited.may_be_last))
            && let Ok(queue) = ledger.queue(&self.request.key, created, timeout)
        {
            self.awaited.confirm_last(queue.entries.into_iter().take_while(|entry| entry.id != self.id));
        }
        let may_prepare = std::mem::replace(&mut self.may_prepare, false);
        if may_prepare && self.lease_at.is_none() && self.created.is_some() {
            let (sent, seconds) = (BootTime::now(), self.request.ttl.duration().as_secs() as i64);
            let is_new = ledger.grant(self.id.holding(), seconds, timeout).ok();
            (self.lease_at, self.is_extended) = (is_new.map(|_| sent), is_new == Some(false));
        }
    }
}
