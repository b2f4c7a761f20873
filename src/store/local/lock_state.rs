//! One key within a transaction: its leases and its queue, read, changed and written.
//!
//! Every function fails as SQLite does, and is undone with the transaction. [`Leases`] decides.

use std::num::NonZeroU32;

use rusqlite::Transaction;

use super::holders::{
    HolderRow, LockRow, forgotten, next_fence, read_holders, read_lock, remove_holder, write_holder,
    write_lock,
};
use super::host::Host;
use super::leases::{Continuation, Leases, Return};
use super::queue::{self, QueueEntry};
use crate::clock::BootTime;
use crate::lock::{
    BreakScope, Breaker, Broken, Busy, FencingToken, Key, Mode, OwnerToken, Permits, Renewal, Request,
    Resized, unix_millis,
};

/// The leases of a key, which are changed with its queue in one transaction.
pub struct LockState<'a> {
    tx: &'a Transaction<'a>,
    key: &'a Key,
    host: &'a Host,
    pub leases: Leases,
}

impl<'a> LockState<'a> {
    pub fn look(tx: &'a Transaction, key: &'a Key, host: &'a Host) -> rusqlite::Result<LockState<'a>> {
        let (last, at) = (read_lock(tx, key)?, host.moment());
        let is_held = |lease: &HolderRow| lease.runs(&at) && !lease.processes.are_dead();
        let (running, over) = read_holders(tx, key, host)?.into_iter().partition(is_held);
        Ok(LockState { tx, key, host, leases: Leases { last, running, over } })
    }

    /// The running lease of this token.
    pub fn lease_of(&self, token: &OwnerToken) -> Option<&HolderRow> {
        self.leases.lease_of(token, &self.host.moment())
    }

    /// The mode in which the lock is in use, held or waited for.
    fn in_use(&self) -> rusqlite::Result<Option<Mode>> {
        match self.leases.held() {
            None => Ok(self.first_alive()?.map(|first| first.mode)),
            held => Ok(held),
        }
    }

    /// The mode in which the lock is in use, when that does not go with this one.
    pub fn other_mode(&self, mode: Mode) -> rusqlite::Result<Option<Mode>> {
        Ok(self.in_use()?.filter(|found| !found.goes_with(mode)))
    }

    /// The request of a waiter, with the current number of permits. A request that wants more than all of them stays as it
    /// was, and is refused.
    pub fn resized(&self, request: &Request) -> rusqlite::Result<Request> {
        let mode = match (request.mode, self.in_use()?) {
            (Mode::Semaphore(_), Some(Mode::Semaphore(now))) if request.metadata.weight() <= now.get() => {
                Mode::Semaphore(now)
            }
            (mode, _) => mode,
        };
        Ok(Request { mode, ..request.clone() })
    }

    /// The lock can be granted to the waiter with this ticket, or to one without a place.
    pub fn has_room(&self, request: &Request, ticket: Option<i64>) -> rusqlite::Result<bool> {
        let is_admitted = self.leases.admits(request.mode, request.metadata.weight());
        Ok(is_admitted && queue::is_first(self.tx, self.key, ticket)?)
    }

    pub fn busy(&self, ticket: Option<i64>) -> rusqlite::Result<Busy> {
        let ahead = Some(queue::ahead(self.tx, self.key, ticket)?);
        let others = self.leases.running.len().saturating_sub(1);
        Ok(Busy { key: self.key.clone(), holder: self.leases.holder(), others, ahead })
    }

    /// Grants the lock for one TTL, or confirms a grant: it was handed over, or the caller asks again.
    pub fn acquire(&mut self, request: &Request) -> rusqlite::Result<(FencingToken, Permits)> {
        let (mode, weight) = (request.mode, request.metadata.weight());
        let (mode, fence, since, broken, permits) = match self.lease_of(&request.token) {
            Some(mine) => {
                let (broken, permits) = (mine.broken.clone(), mine.metadata.permits.clone());
                (self.leases.held().unwrap_or(mode), mine.fence, mine.since, broken, permits)
            }
            None => {
                let permits = self.leases.free_permits(mode, weight);
                (mode, self.next_fence()?, unix_millis(), None, permits)
            }
        };
        let request = &request.clone().with_permits(permits.clone());
        self.hold(mode, HolderRow { broken, ..HolderRow::of(request, fence, since, self.host) })?;
        Ok((FencingToken(fence), permits))
    }

    /// Extends the lease, or takes the lock again that is gone: see [`Store::renew`](crate::lock::Store::renew).
    pub fn renew(&mut self, request: &Request, fence: Option<FencingToken>) -> rusqlite::Result<Renewal> {
        let forgotten = if self.leases.last.is_none() { forgotten(self.tx)? } else { 0 };
        match self.leases.continuation(&request.token, fence, forgotten, &self.host.moment()) {
            Continuation::Extended(lease) => {
                let now = BootTime::now();
                let until = lease.until.max(now.plus(request.ttl.duration()));
                let mode = self.leases.last.as_ref().map_or(request.mode, |last| last.mode);
                self.hold(mode, HolderRow { renewed: now, until, ..*lease })?;
                Ok(Renewal::Extended)
            }
            Continuation::Healed(processes) => {
                let fence = fence.map_or(0, |fence| fence.0);
                let lease = HolderRow::of(request, fence, unix_millis(), self.host);
                self.hold(request.mode, HolderRow { processes, ..lease })?;
                Ok(Renewal::Healed)
            }
            Continuation::Ended(renewal) => Ok(renewal),
        }
    }

    /// Gives the lock back. To `cancel` is to leave the queue too, and not to care for the min-hold. Returns
    /// whether this token held the lock, and whom to wake.
    pub fn give_back(
        &mut self,
        token: &OwnerToken,
        cancel: bool,
    ) -> rusqlite::Result<(bool, Vec<QueueEntry>)> {
        let left_queue = cancel && queue::leave(self.tx, self.key, token)?;
        match self.leases.give_back(token, cancel, &self.host.moment()) {
            Return::NotHeld => {
                let wake = match self.leases.held() {
                    _ if !left_queue => Vec::new(),
                    // A waiter that may be the first now has to watch the holder.
                    None | Some(Mode::Exclusive) => self.first_alive()?.into_iter().collect(),
                    Some(_) => self.hand_over(None)?,
                };
                Ok((false, wake))
            }
            Return::Kept(lease) => {
                let mode = self.leases.last.as_ref().map_or(Mode::Exclusive, |last| last.mode);
                self.hold(mode, lease)?;
                Ok((true, self.first_alive()?.into_iter().collect()))
            }
            Return::Freed { lease, was_held } => {
                self.remove(&lease)?;
                Ok((was_held, self.hand_over(None)?))
            }
        }
    }

    /// Takes the lock from these holders. Returns whom to wake, too.
    pub fn break_from(
        &mut self,
        scope: &BreakScope,
        by: &Breaker,
    ) -> rusqlite::Result<(Broken, Vec<QueueEntry>)> {
        let Some(mode) = self.leases.held() else { return Ok((Broken::Free, Vec::new())) };
        let (outcome, changed) = self.leases.broken_by(scope, by);
        let is_freed = changed.iter().any(|(_, is_removed)| *is_removed);
        for (lease, is_removed) in changed {
            if is_removed { self.remove(&lease)? } else { self.hold(mode, lease)? }
        }
        let wake = if is_freed { self.hand_over(None)? } else { Vec::new() };
        Ok((outcome, wake))
    }

    /// Changes the number of permits: see [`StoreAdmin::resize`](crate::lock::StoreAdmin::resize). Returns whom to wake, too.
    pub fn resize(
        &mut self,
        permits: NonZeroU32,
    ) -> rusqlite::Result<(Result<Resized, Mode>, Vec<QueueEntry>)> {
        let before = match self.in_use()? {
            None => return Ok((Ok(Resized::NotInUse), Vec::new())),
            Some(Mode::Semaphore(before)) => before,
            Some(other) => return Ok((Err(other), Vec::new())),
        };
        let mode = Mode::Semaphore(permits);
        if let Some(last) = self.leases.last.as_mut().filter(|_| !self.leases.running.is_empty()) {
            last.mode = mode;
            write_lock(self.tx, self.key, last)?;
        }
        let mut wake = queue::resize(self.tx, self.key, permits, self.host)?;
        wake.extend(self.hand_over(None)?);
        Ok((Ok(Resized::From(before)), wake))
    }

    fn next_fence(&self) -> rusqlite::Result<u64> {
        Ok(next_fence(self.leases.last.as_ref().map_or_else(|| forgotten(self.tx), |row| Ok(row.fence))?))
    }

    /// Writes down a lease. With a new grant those that are over cannot be healed any more.
    fn hold(&mut self, mode: Mode, lease: HolderRow) -> rusqlite::Result<()> {
        let last = self.leases.last.as_ref().map_or(0, |last| last.fence);
        if last < lease.fence {
            for over in std::mem::take(&mut self.leases.over) {
                remove_holder(self.tx, self.key, over.fence)?;
            }
        }
        write_holder(self.tx, self.key, &lease, self.host)?;
        if last < lease.fence || self.leases.last.as_ref().is_some_and(|last| last.mode != mode) {
            let row = self.leases.last.insert(LockRow { mode, fence: last.max(lease.fence) });
            write_lock(self.tx, self.key, row)?;
        }
        self.leases.put(lease);
        Ok(())
    }

    fn remove(&mut self, lease: &HolderRow) -> rusqlite::Result<()> {
        remove_holder(self.tx, self.key, lease.fence)?;
        self.leases.remove(lease.fence);
        match &mut self.leases.last {
            // Its owner is not to take it for released.
            Some(row) if lease.broken.is_some() => {
                row.fence += 1;
                write_lock(self.tx, self.key, row)
            }
            _ => Ok(()),
        }
    }

    /// Gives the lock to the first waiters that are alive, as many as there is room for, but not to `mine`.
    /// Returns whom to wake: them, and the first in line behind them.
    pub fn hand_over(&mut self, mine: Option<i64>) -> rusqlite::Result<Vec<QueueEntry>> {
        let mut served = Vec::new();
        while self.leases.held() != Some(Mode::Exclusive)
            && let Some(first) = self.first_alive()?
            && mine != Some(first.ticket)
            && self.leases.admits(first.mode, first.metadata.weight())
        {
            let first = queue::serve(self.tx, first)?;
            let permits = self.leases.free_permits(first.mode, first.metadata.weight());
            self.hold(first.mode, HolderRow::claim(&first, self.next_fence()?, permits, self.host))?;
            served.push(first);
        }
        served.extend(self.first_alive()?);
        Ok(served)
    }

    fn first_alive(&self) -> rusqlite::Result<Option<QueueEntry>> {
        queue::first_alive(self.tx, self.key, self.host)
    }
}
