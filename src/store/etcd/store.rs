//! The store: what each call of the contract is in etcd.

use std::time::Duration;

use super::calls::{EtcdCalls, EtcdQueue, holder};
use super::layout::{Entry, EtcdAddress, end_of};
use super::lease_id::LeaseId;
use super::members::EtcdMembers;
use super::message::{Compare, DeleteRequest, LESS, PutRequest, TxnOperation, TxnRequest};
use super::recipe::{has_no_lease, read_itself};
use super::release::{IDLE_TIMEOUT, Release};
use super::waiter::{EtcdWaiter, LONGEST_RENEWAL};
use crate::clock::BootTime;
use crate::lock::{
    AcquireOutcome, Busy, Capabilities, FencingToken, Key, OwnerToken, ReleaseOutcome, Renewal, Request,
    Store, StoreError, Timeout,
};
use crate::store::queue::{EntryData, has_room, other_mode};

/// The capabilities of etcd.
pub const CAPABILITIES: Capabilities = Capabilities {
    ttl_can_change: false,
    // A lease lives for one and a half election timeouts at least; the usual one is a second.
    shortest_ttl: Duration::from_secs(2),
    ttl_resolution: Duration::from_secs(1),
    replicas: Err("etcd has no replicas to wait for; a majority of its members has every lock"),
    history: Err(
        "etcd keeps no history: it would keep every version of it until the next compaction; --log-file and --metrics-file tell of the runs of a host",
    ),
    ..Capabilities::ALL
};

/// A transaction depends on the look before it so many times. Where locks X/a come all the time, something below X changes
/// between the two: then the keys of X are put in any case, and taken back if another look finds that they are not first.
const CONDITIONAL: u32 = 2;

/// The store at one address. It connects with the first call.
///
/// # Deadlines
///
/// A lease ends in etcd at the earliest one TTL after we sent the request that granted or extended it: the leader
/// counts from when it carries that out, and a new leader counts again from its election (lease/lessor.go, `Promote`).
/// Before etcd 3.4.31 and 3.5.13 a leader that had stalled could end leases that another leader had extended (etcd
/// issue 15247).
pub struct Etcd {
    pub(super) calls: EtcdCalls,
    place: Option<EtcdWaiter>,
    /// The answer for the lock that was busy last.
    busy: Option<Box<Busy>>,
    /// When the leases of attempts were made, by requests that were sent then.
    made: Vec<(LeaseId, BootTime)>,
    /// One of the locks was waited for: there may be a lease of a waiter to be ended, and others in the queue.
    has_queued: bool,
    /// The keys of locks that were granted here, where no look is needed before the release.
    without_min_hold: Vec<Vec<u8>>,
}

impl Etcd {
    pub fn new(address: EtcdAddress) -> Etcd {
        let layout = address.layout.clone();
        let calls = EtcdCalls { members: EtcdMembers::new(address), layout };
        Etcd {
            calls,
            place: None,
            busy: None,
            made: Vec::new(),
            has_queued: false,
            without_min_hold: Vec::new(),
        }
    }

    /// Puts the keys of all these locks, if nothing was created in them after the revision `seen` where there is one.
    /// Returns the revision of the store then.
    fn put(
        &mut self,
        requests: &[Request],
        seen: Option<i64>,
        timeout: &Timeout,
    ) -> Result<Option<i64>, StoreError> {
        let layout = &self.calls.layout;
        let unchanged = |seen: i64| {
            requests.iter().map(move |request| {
                let folder = layout.folder(&request.key);
                let end = end_of(&folder);
                Compare::created(folder, end, LESS, seen + 1)
            })
        };
        let put = requests.iter().map(|request| {
            let id = LeaseId::of(&request.token, &request.key);
            TxnOperation::put(PutRequest {
                key: layout.name(&request.key, id, request.mode),
                value: EntryData::granted(request).to_bytes(),
                lease: id.holding(),
                ignore_value: false,
            })
        });
        let not_another = requests.iter().map(|request| has_no_lease(layout, &request.key));
        let txn = TxnRequest {
            compare: not_another.chain(seen.map(unchanged).into_iter().flatten()).collect(),
            success: put.collect(),
            failure: requests.iter().map(|request| read_itself(layout, &request.key)).collect(),
        };
        let Some(done) = self.calls.txn(txn, timeout)? else {
            // It took longer than the TTL.
            let (store, why) = (self.calls.members.name().to_owned(), "the lease has ended".to_owned());
            return Err(StoreError::Unreachable { store, why, transient: true });
        };
        let put_at = done.succeeded.then(|| done.revision());
        let read: Vec<_> = done.into_keys().collect();
        requests.iter().try_for_each(|request| self.calls.refuse_itself(&request.key, &read))?;
        Ok(put_at)
    }

    /// Looks at one of the locks: whether it is free for us, and our place, where an attempt was carried out.
    fn look(&mut self, request: &Request, timeout: &Timeout) -> Result<Look, StoreError> {
        let EtcdQueue { mut entries, others, revision } = self.calls.queue(&request.key, 0, timeout)?;
        self.calls.refuse_others(&request.key, &others, timeout)?;
        let id = LeaseId::of(&request.token, &request.key);
        let place = entries.iter().position(|entry| entry.id == id);
        let own = place.map(|place| entries[place].created);
        entries.truncate(place.unwrap_or(entries.len()));
        if let Some(found) = other_mode(&entries, request.mode) {
            return Err(StoreError::OtherMode { key: request.key.clone(), found });
        }
        let busy = (!has_room(&entries, request.mode)).then_some(entries);
        Ok(Look { own, busy, revision })
    }

    /// Takes all of the locks, or says which one is not free.
    fn take(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        for request in requests {
            let (id, sent) = (LeaseId::of(&request.token, &request.key), BootTime::now());
            if self.calls.grant(id.holding(), request.ttl.duration().as_secs() as i64, timeout)? {
                self.made.retain(|(known, _)| *known != id);
                self.made.push((id, sent));
            }
        }
        // Most locks are free, and have no keys at all.
        let mut seen = 0;
        let mut places = vec![None; requests.len()];
        let mut attempts = 0;
        // When the keys were put in any case.
        let mut put_at = None;
        loop {
            attempts += 1;
            let condition = Some(seen).filter(|_| attempts <= CONDITIONAL);
            let put = self.put(requests, condition, timeout)?;
            if let Some(revision) = put.filter(|_| condition.is_some()) {
                let fence = |own: &Option<i64>| FencingToken(own.unwrap_or(revision).unsigned_abs());
                return Ok(AcquireOutcome::granted(places.iter().map(fence).collect()));
            }
            put_at = put.or(put_at);
            // The key that is there may be another lock's, as X/a of X; or there is room beside it.
            let mut first_look = i64::MAX;
            for (place, request) in places.iter_mut().zip(requests) {
                let look = self.look(request, timeout);
                let is_refused = match &look {
                    Ok(look) => look.busy.is_some(),
                    Err(error) => matches!(error, StoreError::OtherMode { .. } | StoreError::NotALock { .. }),
                };
                if let Some(put_at) = put_at.filter(|_| is_refused) {
                    self.take_back(requests, put_at, timeout)?;
                }
                let look = look?;
                if let Some(entries) = look.busy {
                    let busy = Box::new(self.calls.busy(&request.key, &entries, timeout));
                    self.busy = Some(busy.clone());
                    return Ok(AcquireOutcome::Busy(busy));
                }
                *place = look.own;
                first_look = first_look.min(look.revision);
            }
            seen = first_look;
            if places.iter().all(Option::is_some) {
                let fences = places.iter().flatten().map(|own| FencingToken(own.unsigned_abs()));
                return Ok(AcquireOutcome::granted(fences.collect()));
            }
        }
    }

    /// Deletes keys that were put at this revision or before. The leases are left to themselves: a revocation that somebody
    /// holds up on its way would end that of a later grant, as it has the same id.
    fn take_back(&mut self, requests: &[Request], put_at: i64, timeout: &Timeout) -> Result<(), StoreError> {
        for request in requests {
            let id = LeaseId::of(&request.token, &request.key);
            let key = self.calls.layout.name(&request.key, id, request.mode);
            let compare = vec![Compare::created(key.clone(), Vec::new(), LESS, put_at + 1)];
            let delete = TxnOperation::delete(DeleteRequest { key, range_end: Vec::new() });
            self.calls.txn(TxnRequest { compare, success: vec![delete], failure: Vec::new() }, timeout)?;
        }
        Ok(())
    }

    fn revoke_all(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        let revoked = timeout.share_among(requests, |request, share| {
            let id = LeaseId::of(&request.token, &request.key);
            match self.has_queued {
                true => self.calls.revoke_both(id.holding(), id.waiting(), share),
                false => self.calls.revoke(id.holding(), share),
            }
        });
        revoked.map(drop)
    }

    /// Remembers what was granted.
    fn note<'a>(&mut self, requests: impl IntoIterator<Item = &'a Request>) {
        for Request { key, token, mode, .. } in requests.into_iter().filter(|one| one.min_hold.is_zero()) {
            self.without_min_hold.push(self.calls.layout.name(key, LeaseId::of(token, key), *mode));
        }
    }
}

/// The result of [`Etcd::look`].
struct Look {
    own: Option<i64>,
    /// The queue, if the lock is not free.
    busy: Option<Vec<Entry>>,
    revision: i64,
}

impl Store for Etcd {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let answer = self.take(requests, timeout);
        if matches!(answer, Ok(AcquireOutcome::Granted(_))) {
            self.note(requests);
        }
        answer
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        self.has_queued = true;
        let id = LeaseId::of(&request.token, &request.key);
        let made_at = self.made.iter().find(|(known, _)| *known == id).map(|(_, at)| *at);
        let busy = self.busy.take().filter(|busy| busy.key == request.key);
        let place = self.place.get_or_insert_with(|| EtcdWaiter::new(request.clone(), busy, made_at));
        let answer = place.ask(&mut self.calls, timeout);
        if matches!(answer, Ok(AcquireOutcome::Granted(_))) {
            self.note([request]);
        }
        answer
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool, StoreError> {
        match &mut self.place {
            Some(place) => place.wait(&mut self.calls, timeout),
            None => Ok(true),
        }
    }

    fn settle(&mut self) {
        self.place.take_if(|place| place.is_granted());
    }

    fn prepare(&mut self) {
        if let Some(place) = &mut self.place {
            place.prepare(&mut self.calls, &Timeout::of(IDLE_TIMEOUT));
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        _fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let keeps_place = self.place.as_ref().is_some_and(|place| !place.is_granted());
        let timeout = &if keeps_place { timeout.at_most(LONGEST_RENEWAL) } else { *timeout };
        let (key, id) = (&request.key, LeaseId::of(&request.token, &request.key));
        let (look, lease) = (self.calls.own_request(key, id), id.holding());
        // A lease may outlive a key that somebody deleted.
        let (ttl, own) = self.calls.members.call(timeout, |client| {
            let look = look.clone();
            async move { tokio::try_join!(client.keep_alive(lease), client.range(look)) }
        })?;
        let own = self.calls.read_own(key, id, &own.kvs);
        let wanted = request.ttl.duration().as_secs() as i64;
        match own.held().filter(|_| ttl > 0) {
            Some(held) if own.broken.is_some() => {
                Ok(Renewal::Lost(Some(holder(&held.clone(), own, ttl).into())))
            }
            Some(_) if ttl < wanted => Err(StoreError::Unusable {
                store: self.calls.members.name().to_owned(),
                why: format!(
                    "the lease of '{key}' was made for {ttl}s, which cannot be changed; use --ttl {ttl}s"
                ),
            }),
            Some(_) => Ok(Renewal::Extended),
            // etcd loses nothing, so somebody deleted the key or ended its lease: it is not taken again. Only a key
            // that was left to its min-hold says that it was released: a lease may have been revoked by anybody, or
            // have ended.
            None => {
                let queue = self.calls.queue(key, 0, timeout)?.entries;
                let other = queue.first().filter(|first| first.id != id && !first.is_waiting());
                match other {
                    Some(other) => Ok(Renewal::Lost(Some(self.calls.holder(key, other, timeout)?.into()))),
                    None if own.entry.is_some() => Ok(Renewal::Released),
                    None => Ok(Renewal::Lost(None)),
                }
            }
        }
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        let Etcd { calls, has_queued, without_min_hold, .. } = self;
        Release { calls, has_queued: *has_queued, without_min_hold }.all(keys, token, timeout)
    }

    /// Requests in flight need these leases, whenever they are carried out.
    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        self.place = None;
        self.made.clear();
        if !self.calls.members.was_asked() {
            return Ok(());
        }
        self.revoke_all(requests, timeout)
    }

    fn start_over(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        self.place = None;
        for (done, request) in requests.iter().enumerate() {
            let share = timeout.share(requests.len() - done);
            self.calls.delete_own(&request.key, LeaseId::of(&request.token, &request.key), &share)?;
        }
        Ok(())
    }

    fn leave(&mut self, timeout: &Timeout) {
        for (id, _) in std::mem::take(&mut self.made) {
            // It ends by itself, if this fails.
            let _ = self.calls.revoke(id.holding(), &timeout.at_most(IDLE_TIMEOUT));
        }
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Option<Duration>, StoreError> {
        let id = LeaseId::of(token, key);
        let (look, lease) = (self.calls.own_request(key, id), id.holding());
        let (left, own) = self.calls.members.call(timeout, |client| {
            let look = look.clone();
            async move { tokio::try_join!(client.time_to_live(lease), client.range(look)) }
        })?;
        let own = self.calls.read_own(key, id, &own.kvs);
        let is_held = own.held().is_some() && own.broken.is_none() && left >= 0;
        Ok(is_held.then(|| Duration::from_secs(left.unsigned_abs())))
    }
}
