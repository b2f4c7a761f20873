//! The calls of administrators: a look at all locks, their history, and the end of one.

use std::num::NonZeroU32;

use super::history;
use super::holders::{HolderRow, known_keys};
use super::lock_state::LockState;
use super::queue::{self, QueueEntry};
use super::store::Local;
use crate::lock::{
    BreakScope, Breaker, Broken, History, Key, LockStatus, Resized, Result, StoreAdmin, StoreError, Survey,
    Timeout, Waiter,
};

impl StoreAdmin for Local {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
        self.database.transact(timeout, |tx, host| {
            let known = if keys.is_empty() { known_keys(tx)? } else { keys.to_vec() };
            let mut locks = Vec::new();
            for key in known {
                let state = LockState::look(tx, &key, host)?;
                let holders = state.leases.running.iter().map(HolderRow::holder).collect();
                let waiters = queue::alive(tx, &key, host)?;
                let mode =
                    state.leases.held().or(waiters.first().map(|first| first.mode)).unwrap_or_default();
                let waiter = |entry: QueueEntry| Waiter { mode: entry.mode, metadata: entry.metadata };
                let waiters = waiters.into_iter().map(waiter).collect();
                locks.push(LockStatus { mode, holders, waiters, key });
            }
            Ok(Survey::of_all(locks))
        })
    }

    fn history(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Vec<History>> {
        self.database.transact(timeout, |tx, _| {
            let known = if keys.is_empty() { history::keys(tx)? } else { keys.to_vec() };
            known.iter().map(|key| history::history(tx, key)).collect()
        })
    }

    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken> {
        let (broken, wake) = self
            .database
            .transact(timeout, |tx, host| LockState::look(tx, key, host)?.break_from(scope, by))?;
        self.wake(wake);
        Ok(broken)
    }

    fn resize(&mut self, key: &Key, permits: NonZeroU32, timeout: &Timeout) -> Result<Resized> {
        let (resized, wake) =
            self.database.transact(timeout, |tx, host| LockState::look(tx, key, host)?.resize(permits))?;
        self.wake(wake);
        resized.map_err(|found| StoreError::OtherMode { key: key.clone(), found })
    }
}
