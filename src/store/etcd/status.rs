//! What administrators see and do: all locks, and the end of one.

use std::collections::HashMap;

use super::layout::{Entry, everything, holders};
use super::lease_id::{LeaseId, LeaseStage};
use super::ledger::{Own, holder};
use super::message::{
    Compare, DeleteRequest, EQUAL, KeyValue, PutRequest, RangeRequest, TxnOperation, TxnRequest,
};
use super::recipe::{OtherRecipe, itself};
use super::store::Etcd;
use crate::lock::{
    Breaker, Broken, Key, LockStatus, Metadata, OwnerToken, StoreAdmin, StoreError, Survey, Timeout, Waiter,
    unix_millis,
};

/// How many keys are asked for at once.
const PAGE: i64 = 2000;
/// More places in one queue are not shown.
const LONGEST_QUEUE: i64 = 20_000;

/// A waiter that says nothing about itself.
fn another_program() -> Metadata {
    Metadata { host: "another program".to_owned(), since: unix_millis(), ..Metadata::default() }
}

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
        token: Option<&OwnerToken>,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken, StoreError> {
        let mut queue = self.ledger.queue(key, 0, timeout)?.entries;
        queue.truncate(holders(&queue));
        queue.retain(|entry| !entry.is_waiting());
        if let Some(token) = token {
            let id = LeaseId::of(token, key);
            match queue.iter().find(|entry| entry.id == id) {
                Some(own) => queue = vec![own.clone()],
                None => {
                    let first = queue.first().map(|first| self.ledger.holder(key, first, timeout));
                    return Ok(first.transpose()?.map_or(Broken::Free, Broken::Other));
                }
            }
        }
        let (mut told, mut freed) = (None, None);
        for entry in &queue {
            let own = self.ledger.own(key, entry.id, timeout)?;
            let holder = self.ledger.holder(key, entry, timeout)?;
            // Others than redlock are not told, and who was told before had the time to stop.
            let is_told =
                entry.stage() == Some(LeaseStage::Holding) && own.value.is_some() && own.broken.is_none();
            if self.end(key, entry, is_told.then_some(by), timeout)? {
                if is_told {
                    told.get_or_insert(holder)
                } else {
                    freed.get_or_insert(holder)
                };
            }
        }
        Ok(match (told, freed) {
            (Some(holder), _) => Broken::Told(holder),
            (None, Some(holder)) => Broken::Freed(holder),
            (None, None) => Broken::Free,
        })
    }
}

impl Etcd {
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
        let layout = &self.ledger.layout;
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
        Ok(self.ledger.txn(txn, timeout)?.is_some_and(|done| done.succeeded))
    }

    fn look_at(&mut self, key: Key, survey: &mut Survey, timeout: &Timeout) -> Result<(), StoreError> {
        let folder = self.ledger.layout.folder(&key);
        let (all, itself) = (everything(&folder, LONGEST_QUEUE), itself(&self.ledger.layout, &key));
        let (answer, itself) = self.ledger.members.call(timeout, |client| {
            let (all, itself) = (all.clone(), itself.clone());
            async move { tokio::try_join!(client.range(all), client.range(itself)) }
        })?;
        let entries: Vec<Entry> =
            answer.kvs.iter().filter_map(|kv| self.ledger.layout.entry(&key, kv)).collect();
        let others = answer.kvs.iter().filter_map(|kv| OtherRecipe::find(&self.ledger.layout, &key, kv));
        // Oldest first, here.
        let others: Vec<OtherRecipe> = others.collect::<Vec<_>>().into_iter().rev().collect();
        let refused = self.ledger.refuse_itself(&key, &itself.kvs);
        match refused.and_then(|()| self.ledger.refuse_others(&key, &others, timeout)) {
            Err(error @ StoreError::NotALock { .. }) => {
                survey.hidden.push(error);
                if entries.is_empty() {
                    return Ok(());
                }
            }
            looked => looked?,
        }
        if answer.more {
            let store = self.ledger.members.name();
            let why = format!("{store} has more than {LONGEST_QUEUE} keys below that of '{key}'");
            survey.hidden.push(StoreError::Unconfirmed(why));
        }
        let layout = &self.ledger.layout;
        let mut owned: HashMap<LeaseId, Vec<&KeyValue>> = HashMap::new();
        for kv in &answer.kvs {
            layout.owner(&key, kv).into_iter().for_each(|id| owned.entry(id).or_default().push(kv));
        }
        let mode = entries.first().map(|first| first.mode).unwrap_or_default();
        let (mut status, held) =
            (LockStatus { key, mode, holders: Vec::new(), waiters: Vec::new() }, holders(&entries));
        for (place, entry) in entries.iter().enumerate() {
            let own = owned.get(&entry.id).into_iter().flatten().copied();
            let Own { value, broken, .. } = self.ledger.read_own(&status.key, entry.id, own);
            // The first one in line counts as a waiter until it has seen its grant.
            if place < held && !entry.is_waiting() {
                let lease = entry.lease;
                let left = self
                    .ledger
                    .members
                    .call(timeout, |client| async move { client.time_to_live(lease).await })?;
                status.holders.push(holder(entry, value, broken, left));
            } else {
                let metadata = value.map_or_else(another_program, |value| value.metadata);
                status.waiters.push(Waiter { mode: entry.mode, metadata });
            }
        }
        survey.locks.push(status);
        Ok(())
    }

    /// The keys of all locks below the prefix.
    fn known_keys(&mut self, timeout: &Timeout) -> Result<Vec<Key>, StoreError> {
        let prefix = self.ledger.layout.prefix.clone().into_bytes();
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
            let answer = self.ledger.range(request, timeout)?;
            known.extend(answer.kvs.iter().filter_map(|kv| self.ledger.layout.lock_of(kv)));
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
