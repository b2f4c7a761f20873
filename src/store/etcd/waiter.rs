//! A place in the queue of a lock: taken, kept, and left for the lock itself.

use std::collections::HashSet;
use std::time::Duration;

use tonic::Streaming;

use super::key_data::KeyData;
use super::layout::{Entry, end_of, holders};
use super::lease_id::{LeaseId, LeaseStage};
use super::ledger::{EtcdLedger, Queue, txn};
use super::message::{
    Compare, EQUAL, GREATER, NO_PUT, PutRequest, TxnOperation, TxnRequest, WatchCreateRequest, WatchResponse,
};
use crate::clock::{BootTime, Deadline};
use crate::lock::{AcquireOutcome, Busy, FencingToken, Mode, Request, StoreError, Timeout};
use crate::store::net::check;

/// How long a place lives when the waiter died: the others wait no longer for it.
const TTL: i64 = 3;
/// From one sign of life to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// A sign of life is not begun with less time than this, unless the place is about to end.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(200);
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
    /// The lease of the holder was made ahead of the grant.
    has_lease: bool,
    awaited: Predecessors,
    watch: Option<(u32, Streaming<WatchResponse>)>,
    is_granted: bool,
}

/// Whose end is waited for.
#[derive(Default)]
struct Predecessors {
    key: Vec<u8>,
    range_end: Vec<u8>,
    /// They were looked at at this revision of the store.
    revision: i64,
    names: HashSet<Vec<u8>>,
    /// As many of them may be left.
    room: usize,
    /// There is nobody else before us.
    is_last: bool,
}

impl EtcdWaiter {
    pub fn new(request: Request) -> EtcdWaiter {
        EtcdWaiter {
            id: LeaseId::of(&request.token, &request.key),
            request,
            created: None,
            alive_at: BootTime::now(),
            has_lease: false,
            awaited: Predecessors::default(),
            watch: None,
            is_granted: false,
        }
    }

    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Takes the place, or looks what became of it.
    pub fn ask(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        // The only one before us is gone: no look is needed when the transaction sees that, too.
        if let Some(created) = self.created
            && self.awaited.is_last
            && self.awaited.names.is_empty()
            && self.take(created, true, ledger, timeout)?
        {
            return Ok(self.granted(created));
        }
        loop {
            check(timeout).map_err(|error| super::error::EtcdError::from(error).of(ledger.members.name()))?;
            let created = match self.created {
                Some(created) => created,
                None => self.join(ledger, timeout)?,
            };
            let Queue { mut entries, revision } = ledger.queue(&self.request.key, created, timeout)?;
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
            // Held: an answer was lost.
            if is_first && (is_held || self.take(created, false, ledger, timeout)?) {
                if !is_held || ledger.keep_alive(self.id.holding(), timeout)? > 0 {
                    return Ok(self.granted(created));
                }
                self.created = None;
            }
            if !is_first {
                self.awaited = Predecessors::before(&self.request, ledger, &entries, revision);
                self.watch = None;
                return Ok(AcquireOutcome::Busy(busy(&self.request, &entries, ledger, timeout).into()));
            }
        }
    }

    fn granted(&mut self, created: i64) -> AcquireOutcome {
        self.is_granted = true;
        AcquireOutcome::Granted(vec![FencingToken(created.unsigned_abs())])
    }

    /// Takes a place at the end of the queue, or finds the one of an earlier attempt.
    fn join(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) -> Result<i64, StoreError> {
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

    /// Gives our key the lease of the holder. With `if_first` only when no other key of the lock is older.
    ///
    /// The lease is extended at the same time, so it counts from this call on, whenever it was made.
    fn take(
        &mut self,
        created: i64,
        if_first: bool,
        ledger: &mut EtcdLedger,
        timeout: &Timeout,
    ) -> Result<bool, StoreError> {
        let Request { key, mode, ttl, .. } = &self.request;
        let (name, folder) = (ledger.layout.name(key, self.id, *mode), ledger.layout.folder(key));
        let lease = self.id.holding();
        let mut compare = vec![Compare::created(name.clone(), Vec::new(), EQUAL, created)];
        if if_first {
            let end = end_of(&folder);
            compare.push(Compare::created(folder, end, GREATER, created - 1));
        }
        let value = KeyData::granted(&self.request).to_bytes();
        let put = PutRequest { key: name, value, lease, ignore_value: false };
        let request = TxnRequest { compare, success: vec![TxnOperation::put(put)], failure: Vec::new() };
        loop {
            if !self.has_lease {
                ledger.grant(lease, ttl.duration().as_secs() as i64, timeout)?;
                self.has_lease = true;
            }
            let (left, done) = ledger.members.call(timeout, |client| {
                let request = request.clone();
                async move { tokio::try_join!(client.keep_alive(lease), txn(&client, request)) }
            })?;
            match done {
                // It ended while we waited.
                None => self.has_lease = false,
                Some(done) if !done.succeeded => return Ok(false),
                Some(_) if left > 0 => return Ok(true),
                Some(_) => {
                    (self.has_lease, self.created) = (false, None);
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
                }
                Ok(_) => {
                    // A member without a leader ends its watches.
                    ledger.members.leave();
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
            filters: vec![NO_PUT],
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

    /// There is time to prepare the grant: the lease of the holder, when only the holder is before us.
    pub fn prepare(&mut self, ledger: &mut EtcdLedger, timeout: &Timeout) {
        if self.awaited.is_last && !self.has_lease && self.created.is_some() {
            let seconds = self.request.ttl.duration().as_secs() as i64;
            self.has_lease = ledger.grant(self.id.holding(), seconds, timeout).is_ok();
        }
    }
}

impl Predecessors {
    /// One entry, where the end of that is needed for the grant in any case: the others are not to be woken by each end.
    /// Of a semaphore any end counts.
    fn before(request: &Request, ledger: &EtcdLedger, before: &[Entry], revision: i64) -> Predecessors {
        let one = |entry: &Entry, is_last| Predecessors {
            key: entry.name.clone(),
            names: HashSet::from([entry.name.clone()]),
            is_last,
            revision,
            ..Predecessors::default()
        };
        let is_last = before.len() == 1;
        match request.mode {
            Mode::Semaphore(permits) => {
                let folder = ledger.layout.folder(&request.key);
                let names = before.iter().map(|entry| entry.name.clone()).collect();
                let (range_end, room) = (end_of(&folder), permits.get() as usize - 1);
                Predecessors { key: folder, range_end, revision, names, room, is_last: false }
            }
            Mode::Exclusive => before.last().map(|last| one(last, is_last)).unwrap_or_default(),
            Mode::Shared => {
                let writer = before.iter().rfind(|entry| entry.mode == Mode::Exclusive);
                writer.map(|writer| one(writer, is_last)).unwrap_or_default()
            }
        }
    }

    fn note(&mut self, answer: &WatchResponse) {
        for kv in answer.events.iter().filter_map(|event| event.kv.as_ref()) {
            self.names.remove(&kv.key);
        }
    }

    fn is_over(&self) -> bool {
        self.names.len() <= self.room
    }
}

/// Who has the lock: unknown, if etcd does not answer now.
fn busy(request: &Request, before: &[Entry], ledger: &mut EtcdLedger, timeout: &Timeout) -> Busy {
    let key = request.key.clone();
    let holding = holders(before).min(before.len());
    let (others, ahead) = (holding.saturating_sub(1), Some(before.len() - holding));
    let holder = before.first().filter(|first| !first.is_waiting());
    let holder = holder.and_then(|first| ledger.holder(&key, first, timeout).ok());
    Busy { key, holder, others, ahead }
}
