//! The taking of locks without a place in a queue: all of them in one transaction, or none.

use super::calls::EtcdQueue;
use super::layout::{Entry, end_of};
use super::lease_id::LeaseId;
use super::message::{Compare, DeleteRequest, LESS, PutRequest, TxnOperation, TxnRequest};
use super::recipe::{has_no_lease, read_itself};
use super::store::Etcd;
use crate::clock::BootTime;
use crate::lock::{AcquireOutcome, FencingToken, Request, StoreError, Timeout};
use crate::store::queue::{EntryData, has_room, other_mode};

/// A transaction depends on the look before it so many times. Where locks X/a come all the time, something below X changes
/// between the two: then the keys of X are put in any case, and taken back if another look finds that they are not first.
const CONDITIONAL: u32 = 2;

impl Etcd {
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
    pub(super) fn take(
        &mut self,
        requests: &[Request],
        timeout: &Timeout,
    ) -> Result<AcquireOutcome, StoreError> {
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
}

/// The result of [`Etcd::look`].
struct Look {
    own: Option<i64>,
    /// The queue, if the lock is not free.
    busy: Option<Vec<Entry>>,
    revision: i64,
}
