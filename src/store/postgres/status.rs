//! The view and the tools of administrators: all locks, their history, and the end of one.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::answer::{LeaseRow, add_holder, number, text};
use super::message::TableRow;
use super::statements::{KeyStatements, break_lock, history, owner_hex, survey};
use super::store::Postgres;
use crate::lock::{
    BreakScope, Breaker, Broken, History, Key, LockStatus, Metadata, Mode, OwnerToken, Resized, Result,
    RunRecord, StoreAdmin, StoreError, Survey, Timeout, Waiter,
};

impl StoreAdmin for Postgres {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
        let rows = self.database.transact(&survey(keys), timeout)?;
        let mut locks: BTreeMap<Key, LockStatus> = BTreeMap::new();
        let free = |key: &Key| LockStatus {
            key: key.clone(),
            mode: Default::default(),
            holders: Vec::new(),
            waiters: Vec::new(),
        };
        for lease in rows[0].iter().map(LeaseRow::read) {
            let Some(key) = known(lease.key, keys) else { continue };
            let lock = locks.entry(key.clone()).or_insert_with(|| free(&key));
            lock.mode = lease.mode;
            add_holder(&mut lock.holders, lease.holder);
        }
        for row in &rows[1] {
            let Some(key) = known(text(row, 0), keys) else { continue };
            let mode = text(row, 1).parse().unwrap_or_default();
            let lock = locks.entry(key.clone()).or_insert_with(|| LockStatus { mode, ..free(&key) });
            lock.waiters.push(Waiter { mode, metadata: Metadata::from_untrusted(text(row, 2)) });
        }
        locks.values_mut().for_each(|lock| lock.holders.sort_by_key(|holder| holder.fence));
        let locks = match keys {
            [] => locks.into_values().collect(),
            keys => keys.iter().map(|key| locks.remove(key).unwrap_or_else(|| free(key))).collect(),
        };
        Ok(Survey::of_all(locks))
    }

    fn history(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Vec<History>> {
        let rows = self.database.transact(&[history(keys)], timeout)?;
        let mut histories: BTreeMap<Key, History> = BTreeMap::new();
        let none = |key: &Key| History { key: key.clone(), runs: Vec::new(), skipped: 0 };
        for row in &rows[0] {
            let Some(key) = known(text(row, 0), keys) else { continue };
            let history = histories.entry(key.clone()).or_insert_with(|| none(&key));
            let skipped = number(row, 1).unwrap_or(0);
            match text(row, 2) {
                "" => history.skipped = skipped,
                run => history.runs.extend(RunRecord::from_untrusted(run, skipped)),
            }
        }
        Ok(match keys {
            [] => histories.into_values().collect(),
            keys => keys.iter().map(|key| histories.remove(key).unwrap_or_else(|| none(key))).collect(),
        })
    }

    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken> {
        let nobody = OwnerToken::random();
        let statements = KeyStatements::of(key, scope.owner().unwrap_or(&nobody));
        let [holders, _] = survey(std::slice::from_ref(key));
        let all: Vec<_> = [statements.lock(), holders]
            .into_iter()
            .chain(break_lock(key, scope, by))
            .chain(statements.hand_over())
            .collect();
        let rows = self.database.transact(&all, timeout)?;
        Ok(outcome(&rows[1], scope))
    }

    fn resize(&mut self, key: &Key, permits: NonZeroU32, timeout: &Timeout) -> Result<Resized> {
        let statements = KeyStatements::of(key, &OwnerToken::random());
        let [tidy, serve, settle] = statements.hand_over();
        let all = [statements.lock(), tidy, statements.resize(permits), serve, settle];
        let rows = self.database.transact(&all, timeout)?;
        match rows[2].first().and_then(|row| text(row, 0).parse().ok()) {
            None => Ok(Resized::NotInUse),
            Some(Mode::Semaphore(before)) => Ok(Resized::From(before)),
            Some(found) => Err(StoreError::OtherMode { key: key.clone(), found }),
        }
    }
}

/// The outcome for the leases that were there. A notified holder counts more than a lock that was freed.
fn outcome(rows: &[TableRow], scope: &BreakScope) -> Broken {
    let mut outcome = Broken::Free;
    for lease in rows.iter().map(LeaseRow::read) {
        let is_told = lease.holder.broken.is_none() && !lease.owner.is_empty();
        let is_meant = match scope {
            BreakScope::All => true,
            BreakScope::Owner(token) => lease.owner == owner_hex(token),
            BreakScope::Grant(fence) => is_told && lease.holder.fence == Some(*fence),
        };
        outcome = match (outcome, is_meant, is_told) {
            (told @ Broken::Told(_), ..) => told,
            (_, true, true) => Broken::Told(lease.holder),
            (freed @ Broken::Freed(_), ..) => freed,
            (_, true, false) => Broken::Freed(lease.holder),
            (Broken::Free, false, _) => Broken::Other(lease.holder),
            (other, false, _) => other,
        };
    }
    outcome
}

/// The key with this name: one that was asked for, or any that is not for redlock's own use.
fn known(name: &str, keys: &[Key]) -> Option<Key> {
    match keys {
        [] => name.parse().ok(),
        keys => keys.iter().find(|key| key.as_str() == name).cloned(),
    }
}
