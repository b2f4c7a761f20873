//! How locks are released. Where no look is needed the key goes first, which frees the lock, and the lease after it.

use std::thread::sleep;
use std::time::Duration;

use super::calls::EtcdCalls;
use super::layout::end_of;
use super::lease_id::LeaseId;
use super::message::{Compare, DeleteRequest, PutRequest, RangeRequest, TxnOperation, TxnRequest};
use crate::lock::{Key, OwnerToken, ReleaseOutcome, StoreError, Timeout};
use crate::store::HANDOVER;
use crate::store::queue::EntryData;

/// The time for calls that are not urgent.
pub const IDLE_TIMEOUT: Duration = Duration::from_millis(100);

/// A release of locks, with the facts that save it a look.
pub struct Release<'a> {
    pub calls: &'a mut EtcdCalls,
    /// One of the locks was waited for: others are likely to wait as well.
    pub has_queued: bool,
    /// The keys of locks that were granted here without a min-hold.
    pub without_min_hold: &'a [Vec<u8>],
}

/// How far a lock is released.
enum ReleaseProgress {
    NotHeld,
    Done,
    /// Its key is gone, and its lease not yet.
    KeyDeleted {
        is_awaited: bool,
    },
}

impl Release<'_> {
    /// Releases these locks of one owner.
    pub fn all(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        let (mut leases, mut is_awaited) = (Vec::new(), false);
        let released = timeout.share_among(keys, |key, share| {
            let id = LeaseId::of(token, key);
            let progress = self.release_one(key, id, share)?;
            if let ReleaseProgress::KeyDeleted { is_awaited: this } = progress {
                leases.push(id.holding());
                is_awaited |= this;
            }
            Ok(ReleaseOutcome::from(!matches!(progress, ReleaseProgress::NotHeld)))
        });
        if is_awaited {
            sleep(HANDOVER);
        }
        for lease in leases {
            // It ends by itself, if this fails.
            let _ = self.calls.revoke(lease, &timeout.at_most(IDLE_TIMEOUT));
        }
        released
    }

    fn release_one(
        &mut self,
        key: &Key,
        id: LeaseId,
        timeout: &Timeout,
    ) -> Result<ReleaseProgress, StoreError> {
        let unanswered = self.calls.members.unanswered();
        if let Some(is_awaited) = self.release_without_look(key, id, timeout)? {
            return Ok(ReleaseProgress::KeyDeleted { is_awaited });
        }
        let is_repeated = self.calls.members.unanswered() > unanswered;
        let own = self.calls.own(key, id, timeout)?;
        let Some(held) = own.held() else {
            // A first request without an answer may have been the one that released it.
            return Ok(if is_repeated { ReleaseProgress::Done } else { ReleaseProgress::NotHeld });
        };
        let left = own.value.as_ref().map_or(Duration::ZERO, EntryData::left_to_hold);
        if !left.is_zero() && own.broken.is_none() {
            // The key stays, and ends by itself: nobody holds it any more.
            let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            self.calls.grant(id.kept(), seconds as i64, timeout)?;
            let name = held.name.clone();
            let compare = vec![Compare::leased(name.clone(), id.holding())];
            let put = PutRequest { key: name, value: Vec::new(), lease: id.kept(), ignore_value: true };
            let txn = TxnRequest { compare, success: vec![TxnOperation::put(put)], failure: Vec::new() };
            self.calls.txn(txn, timeout)?;
        }
        self.calls.revoke(id.holding(), timeout)?;
        Ok(ReleaseProgress::Done)
    }

    /// Deletes the key of a lock that was granted here, if it is held, and says whether others want the lock. `None` where
    /// a look has to tell what to do.
    fn release_without_look(
        &mut self,
        key: &Key,
        id: LeaseId,
        timeout: &Timeout,
    ) -> Result<Option<bool>, StoreError> {
        let [own, end] = self.calls.layout.own_range(key, id);
        let Some(name) = self.without_min_hold.iter().find(|name| (&own..&end).contains(name)).cloned()
        else {
            return Ok(None);
        };
        let compare = vec![Compare::leased(name.clone(), id.holding())];
        let mut success = vec![TxnOperation::delete(DeleteRequest { key: name, range_end: Vec::new() })];
        // Others are assumed to wait for a lock that we waited for. To look at them is to go through all keys that the lock
        // has had since the last compaction.
        if !self.has_queued {
            let folder = self.calls.layout.folder(key);
            let range_end = end_of(&folder);
            let others =
                RangeRequest { key: folder, range_end, limit: 1, keys_only: true, ..Default::default() };
            success.push(TxnOperation::range(others));
        }
        let done = self.calls.txn(TxnRequest { compare, success, failure: Vec::new() }, timeout)?;
        let done = done.filter(|done| done.succeeded);
        Ok(done.map(|done| self.has_queued || done.into_keys().next().is_some()))
    }
}
