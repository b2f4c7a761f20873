//! The calls that locks are made of: leases, queues and the keys of one owner.

use std::time::Duration;

use tonic::{Code, Status};

use super::client::EtcdClient;
use super::layout::{Entry, KeyLayout, page};
use super::lease_id::LeaseId;
use super::members::EtcdMembers;
use super::message::{
    Compare, DeleteRequest, KeyValue, LESS, RangeRequest, RangeResponse, TxnOperation, TxnRequest,
    TxnResponse,
};
use super::recipe::OtherRecipe;
use crate::lock::{Breaker, Busy, Holder, Key, StoreError, Timeout};
use crate::store::queue::{self, EntryData, Stage};

/// The locks in a cluster.
pub struct EtcdCalls {
    pub members: EtcdMembers,
    pub layout: KeyLayout,
}

/// The key of an owner in a lock, with its value and its mark.
#[derive(Default)]
pub struct Own {
    pub entry: Option<Entry>,
    pub value: Option<EntryData>,
    /// Somebody broke the lock.
    pub broken: Option<Breaker>,
}

impl Own {
    /// Its key, if that holds the lock.
    pub fn held(&self) -> Option<&Entry> {
        self.entry.as_ref().filter(|entry| entry.stage() == Some(Stage::Holding))
    }
}

/// The places in the queue of a lock, in order, and the revision of the store at which they were all.
pub struct EtcdQueue {
    pub entries: Vec<Entry>,
    /// The keys of other recipes beside them, newest first.
    pub others: Vec<OtherRecipe>,
    pub revision: i64,
}

impl EtcdCalls {
    /// Makes a lease, or extends the one of an earlier attempt whose answer was lost. True if it was made now.
    pub fn grant(&mut self, id: i64, seconds: i64, timeout: &Timeout) -> Result<bool, StoreError> {
        self.members.call(timeout, |client| async move {
            loop {
                if client.grant(id, seconds).await? {
                    return Ok(true);
                }
                if client.keep_alive(id).await? > 0 {
                    return Ok(false);
                }
            }
        })
    }

    /// Extends a lease. Its TTL in seconds, 0 or less without such a lease.
    pub fn keep_alive(&mut self, id: i64, timeout: &Timeout) -> Result<i64, StoreError> {
        self.members.call(timeout, |client| async move { client.keep_alive(id).await })
    }

    /// Ends a lease and deletes its keys, if it is there.
    pub fn revoke(&mut self, id: i64, timeout: &Timeout) -> Result<(), StoreError> {
        self.members.call(timeout, |client| async move { client.revoke(id).await.map(drop) })
    }

    /// Ends two leases at once, likewise.
    pub fn revoke_both(&mut self, one: i64, other: i64, timeout: &Timeout) -> Result<(), StoreError> {
        self.members.call(timeout, |client| async move {
            let (one, other) = tokio::join!(client.revoke(one), client.revoke(other));
            one.and(other).map(drop)
        })
    }

    /// The queue of a lock, up to the place that was created at `latest` (0 for all of it).
    pub fn queue(&mut self, key: &Key, latest: i64, timeout: &Timeout) -> Result<EtcdQueue, StoreError> {
        let (folder, mut latest) = (self.layout.folder(key), latest);
        let mut queue = EtcdQueue { entries: Vec::new(), others: Vec::new(), revision: 0 };
        loop {
            let request = page(&folder, latest);
            let answer = self.range(request, timeout)?;
            if queue.revision == 0 {
                queue.revision = answer.revision();
            }
            for kv in &answer.kvs {
                // The last ones of a page may be the first ones of the next: one transaction creates several.
                let last = queue.entries.iter().rev().take_while(|known| known.created == kv.create_revision);
                let is_known = last.into_iter().any(|known| known.name == kv.key);
                queue.entries.extend(self.layout.entry(key, kv).filter(|_| !is_known));
                queue.others.extend(OtherRecipe::find(&self.layout, key, kv));
            }
            let last = answer.kvs.last().map_or(0, |kv| kv.create_revision);
            if !answer.more || last == latest || last == 0 {
                break;
            }
            latest = last;
        }
        queue.entries.reverse();
        Ok(queue)
    }

    /// The key of an owner in a lock, with its value and its mark.
    pub fn own(&mut self, key: &Key, id: LeaseId, timeout: &Timeout) -> Result<Own, StoreError> {
        let request = self.own_request(key, id);
        let answer = self.range(request, timeout)?;
        Ok(self.read_own(key, id, &answer.kvs))
    }

    /// Deletes what an owner has of a lock now. Keys that it gets later stay, whenever this is carried out.
    pub fn delete_own(&mut self, key: &Key, id: LeaseId, timeout: &Timeout) -> Result<(), StoreError> {
        let own = self.range(self.own_request(key, id), timeout)?;
        let Some(latest) = own.kvs.iter().map(|kv| kv.create_revision).max() else { return Ok(()) };
        let [name, end] = self.layout.own_range(key, id);
        let compare = vec![Compare::created(name.clone(), end.clone(), LESS, latest + 1)];
        let delete = TxnOperation::delete(DeleteRequest { key: name, range_end: end });
        self.txn(TxnRequest { compare, success: vec![delete], failure: Vec::new() }, timeout).map(drop)
    }

    pub fn own_request(&self, key: &Key, id: LeaseId) -> RangeRequest {
        let [name, end] = self.layout.own_range(key, id);
        RangeRequest { key: name, range_end: end, ..RangeRequest::default() }
    }

    /// The same from some keys, of which those of others are left out.
    pub fn read_own<'a>(&self, key: &Key, id: LeaseId, kvs: impl IntoIterator<Item = &'a KeyValue>) -> Own {
        let mut own = Own::default();
        for kv in kvs {
            own.broken = own.broken.or_else(|| self.layout.breaker(kv));
            if let Some(entry) = self.layout.entry(key, kv).filter(|entry| entry.id == id) {
                own.value = EntryData::from_untrusted(&kv.value);
                own.entry = Some(entry);
            }
        }
        own
    }

    pub fn range(&mut self, request: RangeRequest, timeout: &Timeout) -> Result<RangeResponse, StoreError> {
        self.members.call(timeout, move |client| {
            let request = request.clone();
            async move { client.range(request).await }
        })
    }

    /// Carries out a transaction; `None` when a lease in it is not there (any more).
    pub fn txn(&mut self, request: TxnRequest, timeout: &Timeout) -> Result<Option<TxnResponse>, StoreError> {
        self.members.call(timeout, move |client| {
            let request = request.clone();
            async move { txn(&client, request).await }
        })
    }

    /// The holder that has this entry, as others see it.
    pub fn holder(&mut self, key: &Key, entry: &Entry, timeout: &Timeout) -> Result<Holder, StoreError> {
        let (request, lease) = (self.own_request(key, entry.id), entry.lease);
        let (own, left) = self.members.call(timeout, move |client| {
            let request = request.clone();
            async move { tokio::try_join!(client.range(request), client.time_to_live(lease)) }
        })?;
        let own = self.read_own(key, entry.id, &own.kvs);
        Ok(holder(entry, own, left))
    }

    /// The answer to a newcomer behind these. The holder is unknown if etcd does not answer now.
    pub fn busy(&mut self, key: &Key, before: &[Entry], timeout: &Timeout) -> Busy {
        let first = before.first().filter(|first| !first.is_waiting());
        queue::busy(key, before, first.and_then(|first| self.holder(key, first, timeout).ok()))
    }
}

/// See [`EtcdCalls::txn`].
pub async fn txn(client: &EtcdClient, request: TxnRequest) -> Result<Option<TxnResponse>, Status> {
    match client.txn(request).await {
        Ok(done) => Ok(Some(done)),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}

/// A holder, with `left` seconds on its lease. The lease of another program's key may be none at all.
pub fn holder(entry: &Entry, own: Own, left: i64) -> Holder {
    Holder {
        left: (entry.lease != 0).then(|| Duration::from_secs(left.max(0).unsigned_abs())),
        is_kept: entry.stage() == Some(Stage::Kept),
        broken: own.broken,
        ..EntryData::holder(own.value.as_ref(), entry.created)
    }
}
