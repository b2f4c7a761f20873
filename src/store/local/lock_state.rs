//! One key within a transaction: who holds it now, and who is next.
//!
//! All fails as SQLite does, and is undone with the transaction.

use rusqlite::Transaction;

use super::holders::{
    HolderRow, LockRow, forgotten, next_fence, read_holders, read_lock, remove_holder, write_holder,
    write_lock,
};
use super::host::Host;
use super::liveness::Processes;
use super::queue::{self, QueueEntry};
use crate::clock::BootTime;
use crate::lock::{
    Breaker, Broken, Busy, FencingToken, Holder, Key, Mode, OwnerToken, Renewal, Request, unix_millis,
};

/// What is known of a key, and changed with its holders and its queue in one transaction.
pub struct LockState<'a> {
    tx: &'a Transaction<'a>,
    key: &'a Key,
    host: &'a Host,
    /// `None` for a key that was never granted, or is forgotten.
    row: Option<LockRow>,
    /// Whose leases run.
    pub holders: Vec<HolderRow>,
    expired: Vec<HolderRow>,
}

impl<'a> LockState<'a> {
    pub fn look(tx: &'a Transaction, key: &'a Key, host: &'a Host) -> rusqlite::Result<LockState<'a>> {
        let row = read_lock(tx, key)?;
        let all = read_holders(tx, key, host)?.into_iter();
        let (holders, expired) = all.partition(|lease| lease.is_held(host));
        Ok(LockState { tx, key, host, row, holders, expired })
    }

    /// The mode in which the lock is held; `None` for a free lock.
    pub fn held(&self) -> Option<Mode> {
        self.row.as_ref().filter(|_| !self.holders.is_empty()).map(|row| row.mode)
    }

    fn leases(&self) -> impl Iterator<Item = &HolderRow> {
        self.holders.iter().chain(&self.expired)
    }

    /// The running lease of this token, whose owner is asking and so alive.
    pub fn lease_of(&self, token: &OwnerToken) -> Option<&HolderRow> {
        self.leases().find(|lease| lease.is_held_by(token, self.host))
    }

    fn admits(&self, mode: Mode) -> bool {
        match self.held() {
            None => true,
            Some(Mode::Exclusive) => false,
            Some(held) if held != mode => false,
            Some(Mode::Shared) => true,
            Some(Mode::Semaphore(permits)) => self.holders.len() < permits.get() as usize,
        }
    }

    /// Whose lease decides how long the lock is held: of readers the last to end, of permits the first.
    pub fn deciding_holder(&self) -> Option<&HolderRow> {
        match self.held() {
            Some(Mode::Shared) => self.holders.iter().max_by_key(|lease| lease.until),
            _ => self.holders.iter().min_by_key(|lease| lease.until),
        }
    }

    fn holder(&self) -> Option<Holder> {
        self.deciding_holder().map(HolderRow::holder)
    }

    /// The processes with whose death there may be room: those of the holder, of all readers together, of each permit.
    pub fn processes(&self) -> Vec<Processes> {
        let each = self.holders.iter().map(|lease| &lease.processes);
        match self.held() {
            Some(Mode::Shared) => vec![Processes::together(each)],
            _ => each.cloned().collect(),
        }
    }

    /// The mode in which the lock is in use, held or waited for, when that does not go with this one.
    pub fn other_mode(&self, mode: Mode) -> rusqlite::Result<Option<Mode>> {
        let in_use = match self.held() {
            None => self.first_alive()?.map(|first| first.mode),
            held => held,
        };
        Ok(in_use.filter(|found| !found.goes_with(mode)))
    }

    /// Whether the lock can be granted to the waiter with this ticket, or to one without a place.
    pub fn has_room(&self, mode: Mode, ticket: Option<i64>) -> rusqlite::Result<bool> {
        Ok(self.admits(mode) && queue::is_first(self.tx, self.key, ticket)?)
    }

    pub fn busy(&self, ticket: Option<i64>) -> rusqlite::Result<Busy> {
        let ahead = Some(queue::ahead(self.tx, self.key, ticket)?);
        let others = self.holders.len().saturating_sub(1);
        Ok(Busy { key: self.key.clone(), holder: self.holder(), others, ahead })
    }

    /// Grants the lock for one TTL, or confirms a grant: it was handed over, or the caller asks again.
    pub fn acquire(&mut self, request: &Request) -> rusqlite::Result<FencingToken> {
        let (fence, since, broken) = match self.lease_of(&request.token) {
            Some(mine) => (mine.fence, mine.since, mine.broken.clone()),
            None => (self.next_fence()?, unix_millis(), None),
        };
        self.hold(request.mode, HolderRow { broken, ..HolderRow::of(request, fence, since, self.host) })?;
        Ok(FencingToken(fence))
    }

    /// Extends the lease, or takes the lock again that is gone: see [`Store::renew`](crate::lock::Store::renew).
    pub fn renew(&mut self, request: &Request, fence: Option<FencingToken>) -> rusqlite::Result<Renewal> {
        if let Some(mine) = self.lease_of(&request.token) {
            if mine.broken.is_some() {
                return Ok(Renewal::Lost(Some(mine.holder())));
            }
            let now = BootTime::now();
            let until = mine.until.max(now.plus(request.ttl.duration()));
            let lease = HolderRow { renewed: now, until, ..mine.clone() };
            self.hold(self.row.as_ref().map_or(request.mode, |row| row.mode), lease)?;
            return Ok(Renewal::Extended);
        }
        let Some(FencingToken(fence)) = fence else { return Ok(Renewal::Lost(self.holder())) };
        let last = self.expired.iter().chain(&self.holders).find(|lease| lease.fence == fence);
        let is_healed = match &self.row {
            // The file is a new one, unless the key was forgotten.
            None => forgotten(self.tx)? < fence,
            Some(row) if row.mode == Mode::Exclusive && row.fence == fence => match last {
                // Expired, and nobody else was granted it since.
                Some(last) if last.owner.is_some() => {
                    last.is_of(&request.token) && self.host.is_this_boot(&last.boot) && last.broken.is_none()
                }
                Some(last) if last.broken.is_some() => false,
                _ => return Ok(Renewal::Released),
            },
            // An older copy took the place of the file. Whoever came since has a higher one.
            Some(row) => self.holders.is_empty() && row.fence < fence,
        };
        if !is_healed {
            return Ok(Renewal::Lost(self.holder()));
        }
        // Those that the file names: another process than this one may have taken the lock.
        let processes = last.map(|last| last.processes.clone()).unwrap_or_default();
        let lease = HolderRow::of(request, fence, unix_millis(), self.host);
        self.hold(request.mode, HolderRow { processes, ..lease })?;
        Ok(Renewal::Healed)
    }

    /// Gives the lock back. To `cancel` is to leave the queue too, and not to care for the min-hold. Returns
    /// whether this token held the lock, and whom to wake.
    pub fn give_back(
        &mut self,
        token: &OwnerToken,
        cancel: bool,
    ) -> rusqlite::Result<(bool, Vec<QueueEntry>)> {
        let left_queue = cancel && queue::leave(self.tx, self.key, token)?;
        // Whoever asks is alive, so this is looked at without regard to the processes.
        let is_mine = |lease: &&HolderRow| lease.is_of(token) && self.host.is_this_boot(&lease.boot);
        let Some(lease) = self.leases().find(is_mine).cloned() else {
            let wake = match self.held() {
                _ if !left_queue => Vec::new(),
                // Who may be the first in line now has to watch the holder.
                None | Some(Mode::Exclusive) => self.first_alive()?.into_iter().collect(),
                Some(_) => self.hand_over(None)?,
            };
            return Ok((false, wake));
        };
        let is_held = !lease.until.has_passed();
        if is_held && lease.broken.is_none() && !cancel && !lease.hold_until.has_passed() {
            // Nobody's any more: only the time holds it.
            let mode = self.row.as_ref().map_or(Mode::Exclusive, |row| row.mode);
            let (until, owner, processes) = (lease.hold_until, None, Processes::default());
            self.hold(mode, HolderRow { until, owner, processes, ..lease })?;
            return Ok((true, self.first_alive()?.into_iter().collect()));
        }
        self.remove(&lease)?;
        Ok((is_held, self.hand_over(None)?))
    }

    /// Takes the lock from its holders, or from this one. Returns whom to wake, too.
    pub fn break_from(
        &mut self,
        token: Option<&OwnerToken>,
        by: &Breaker,
    ) -> rusqlite::Result<(Broken, Vec<QueueEntry>)> {
        let Some(mode) = self.held() else { return Ok((Broken::Free, Vec::new())) };
        let mut outcome = self.holder().map_or(Broken::Free, Broken::Other);
        let mut is_freed = false;
        for lease in self.holders.clone() {
            if token.is_some_and(|token| !lease.is_of(token)) {
                continue;
            }
            let holder = lease.holder();
            let lease = HolderRow { broken: Some(by.clone()), ..lease };
            // Told before, or there is nobody to tell.
            if holder.broken.is_some() || lease.owner.is_none() {
                self.remove(&lease)?;
                is_freed = true;
                if !matches!(outcome, Broken::Told(_)) {
                    outcome = Broken::Freed(holder);
                }
            } else {
                self.hold(mode, lease)?;
                outcome = Broken::Told(holder);
            }
        }
        let wake = if is_freed { self.hand_over(None)? } else { Vec::new() };
        Ok((outcome, wake))
    }

    fn next_fence(&self) -> rusqlite::Result<u64> {
        Ok(next_fence(self.row.as_ref().map_or_else(|| forgotten(self.tx), |row| Ok(row.fence))?))
    }

    /// Writes down a lease. With a new grant those that are over cannot be healed any more.
    fn hold(&mut self, mode: Mode, lease: HolderRow) -> rusqlite::Result<()> {
        let last = self.row.as_ref().map_or(0, |row| row.fence);
        if last < lease.fence {
            for expired in std::mem::take(&mut self.expired) {
                remove_holder(self.tx, self.key, expired.fence)?;
            }
        }
        write_holder(self.tx, self.key, &lease, self.host)?;
        if last < lease.fence || self.row.as_ref().is_some_and(|row| row.mode != mode) {
            let row = self.row.insert(LockRow { mode, fence: last.max(lease.fence) });
            write_lock(self.tx, self.key, row)?;
        }
        self.expired.retain(|other| other.fence != lease.fence);
        self.holders.retain(|other| other.fence != lease.fence);
        self.holders.push(lease);
        Ok(())
    }

    fn remove(&mut self, lease: &HolderRow) -> rusqlite::Result<()> {
        remove_holder(self.tx, self.key, lease.fence)?;
        self.expired.retain(|other| other.fence != lease.fence);
        self.holders.retain(|other| other.fence != lease.fence);
        match &mut self.row {
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
        while self.held() != Some(Mode::Exclusive)
            && let Some(first) = self.first_alive()?
            && mine != Some(first.ticket)
            && self.admits(first.mode)
        {
            let first = queue::serve(self.tx, first)?;
            self.hold(first.mode, HolderRow::claim(&first, self.next_fence()?, self.host))?;
            served.push(first);
        }
        served.extend(self.first_alive()?);
        Ok(served)
    }

    fn first_alive(&self) -> rusqlite::Result<Option<QueueEntry>> {
        queue::first_alive(self.tx, self.key, self.host)
    }
}
