//! The calls of administrators: a look at all locks, and the end of one.

use std::collections::HashMap;

use super::calls::{EtcdCalls, holder};
use super::layout::{Entry, everything};
use super::lease_id::LeaseId;
use super::message::{
    Compare, DeleteRequest, EQUAL, KeyValue, PutRequest, RangeRequest, TxnOperation, TxnRequest,
};
use super::recipe::{OtherRecipe, itself};
use super::store::Etcd;
use crate::lock::{BreakScope, Breaker, Broken, Key, StoreAdmin, StoreError, Survey, Timeout};
use crate::store::queue::{SeenEntry, Stage, break_lock, holders, status};

/// The number of keys that are asked for at once.
const PAGE: i64 = 2000;
/// More places in one queue are not shown.
const LONGEST_QUEUE: i64 = 20_000;

impl StoreAdmin for Etcd {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey, StoreError> {
        let known = if keys.is_empty() { self.known_keys(timeout)? } else { keys.to_vec() };
        let mut survey = Survey::default();
        for key in known {
            self.look_at(key, &mut survey, timeout)?;
        }
        Ok(survey)
    }

    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken, StoreError> {
        let mut queue = self.calls.queue(key, 0, timeout)?.entries;
        queue.truncate(holders(&queue));
        queue.retain(|entry| !entry.is_waiting());
        let id = scope.owner().map(|token| LeaseId::of(token, key));
        let look = |calls: &mut EtcdCalls, entry: &Entry| {
            let holder = calls.holder(key, entry, timeout)?;
            let is_redlock = entry.stage() == Some(Stage::Holding) && holder.metadata.is_some();
            let can_be_told = is_redlock && holder.broken.is_none();
            Ok((holder, can_be_told))
        };
        let end = |calls: &mut EtcdCalls, entry: &Entry, is_told: bool| {
            calls.end(key, entry, is_told.then_some(by), timeout)
        };
        let is_own = id.map(|id| move |entry: &Entry| entry.id == id);
        break_lock(&mut self.calls, queue, is_own, scope.grant(), look, end)
    }
}

impl EtcdCalls {
    /// Tells a holder by whom its lock was broken, so that it stops, or takes its key away. `false` when the key is gone already.
    ///
    /// The mark has the lease of the holder: both end together.
    fn end(
        &mut self,
        key: &Key,
        entry: &Entry,
        told_by: Option<&Breaker>,
        timeout: &Timeout,
    ) -> Result<bool, StoreError> {
        let layout = &self.layout;
        let work = if let Some(by) = told_by {
            let mark = layout.broken(key, entry.id);
            TxnOperation::put(PutRequest {
                key: mark,
                value: by.as_str().into(),
                lease: entry.lease,
                ignore_value: false,
            })
        } else {
            let [own, end] = layout.own_range(key, entry.id);
            // Another program's may be written otherwise.
            let is_own = (&own..&end).contains(&&entry.name);
            let (key, range_end) = if is_own { (own, end) } else { (entry.name.clone(), Vec::new()) };
            TxnOperation::delete(DeleteRequest { key, range_end })
        };
        let compare = vec![
            Compare::created(entry.name.clone(), Vec::new(), EQUAL, entry.created),
            Compare::leased(entry.name.clone(), entry.lease),
        ];
        let txn = TxnRequest { compare, success: vec![work], failure: Vec::new() };
        Ok(self.txn(txn, timeout)?.is_some_and(|done| done.succeeded))
    }
}

impl Etcd {
    fn look_at(&mut self, key: Key, survey: &mut Survey, timeout: &Timeout) -> Result<(), StoreError> {
        let folder = self.calls.layout.folder(&key);
        let (all, itself) = (everything(&folder, LONGEST_QUEUE), itself(&self.calls.layout, &key));
        let (answer, itself) = self.calls.members.call(timeout, |client| {
            let (all, itself) = (all.clone(), itself.clone());
            async move { tokio::try_join!(client.range(all), client.range(itself)) }
        })?;
        let entries: Vec<Entry> =
            answer.kvs.iter().filter_map(|kv| self.calls.layout.entry(&key, kv)).collect();
        let others = answer.kvs.iter().filter_map(|kv| OtherRecipe::find(&self.calls.layout, &key, kv));
        // Oldest first, here.
        let others: Vec<OtherRecipe> = others.collect::<Vec<_>>().into_iter().rev().collect();
        let refused = self.calls.refuse_itself(&key, &itself.kvs);
        match refused.and_then(|()| self.calls.refuse_others(&key, &others, timeout)) {
            Err(error @ StoreError::NotALock { .. }) => {
                survey.hidden.push(error);
                if entries.is_empty() {
                    return Ok(());
                }
            }
            looked => looked?,
        }
        if answer.more {
            let store = self.calls.members.name();
            let why = format!("{store} has more than {LONGEST_QUEUE} keys below that of '{key}'");
            survey.hidden.push(StoreError::Unconfirmed(why));
        }
        let layout = &self.calls.layout;
        let mut owned: HashMap<LeaseId, Vec<&KeyValue>> = HashMap::new();
        for kv in &answer.kvs {
            layout.owner(&key, kv).into_iter().for_each(|id| owned.entry(id).or_default().push(kv));
        }
        let (mut seen, held) = (Vec::with_capacity(entries.len()), holders(&entries));
        for (place, entry) in entries.iter().enumerate() {
            let own = owned.get(&entry.id).into_iter().flatten().copied();
            let own = self.calls.read_own(&key, entry.id, own);
            let (mode, data) = (entry.mode, own.value.clone());
            let holder = if place < held && !entry.is_waiting() {
                let lease = entry.lease;
                let left = self
                    .calls
                    .members
                    .call(timeout, |client| async move { client.time_to_live(lease).await })?;
                Some(holder(entry, own, left))
            } else {
                None
            };
            seen.push(SeenEntry { mode, data, holder });
        }
        survey.locks.push(status(key, &entries, seen));
        Ok(())
    }

    /// The keys of all locks below the prefix.
    fn known_keys(&mut self, timeout: &Timeout) -> Result<Vec<Key>, StoreError> {
        let prefix = self.calls.layout.prefix.clone().into_bytes();
        let range_end = if prefix.is_empty() { vec![0] } else { super::layout::end_of(&prefix) };
        let mut from = if prefix.is_empty() { vec![0] } else { prefix };
        let mut known = Vec::new();
        loop {
            let request = RangeRequest {
                key: from,
                range_end: range_end.clone(),
                limit: PAGE,
                keys_only: true,
                ..RangeRequest::default()
            };
            let answer = self.calls.range(request, timeout)?;
            known.extend(answer.kvs.iter().filter_map(|kv| self.calls.layout.lock_of(kv)));
            match answer.kvs.last() {
                Some(last) if answer.more => from = [&last.key[..], &[0]].concat(),
                _ => break,
            }
        }
        known.sort();
        known.dedup();
        Ok(known)
    }
}
