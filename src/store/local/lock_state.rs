//! One key within a transaction: who holds it now, and who is next.
//!
//! All fails as SQLite does, and is undone with the transaction.

use rusqlite::Transaction;

use super::holders::{
    HolderRow, LockRow, forgotten, next_fence, read, read_several, remove_one, set_free, write, write_one,
};
use super::host::Host;
use super::liveness::Processes;
use super::queue::{self, QueueEntry, first_alive};
use crate::clock::{BootTime, Deadline};
use crate::lock::{Broken, Busy, FencingToken, Holder, Key, Mode, OwnerToken, Renewal, Request, unix_millis};

/// What is known of a key, and changed with its holders and its queue in one transaction.
pub struct LockState<'a> {
    tx: &'a Transaction<'a>,
    key: &'a Key,
    host: &'a Host,
    /// `None` for a key that was never granted, or is forgotten.
    row: Option<LockRow>,
    /// How it is held; `None` for a free lock.
    pub held: Option<Mode>,
    /// Those who hold it together.
    pub several: Vec<HolderRow>,
}

impl<'a> LockState<'a> {
    /// Reads the key, and strikes out those of several holders that are gone.
    pub fn look(tx: &'a Transaction, key: &'a Key, host: &'a Host) -> rusqlite::Result<LockState<'a>> {
        let row = read(tx, key, host)?;
        let mut state = LockState { tx, key, host, row, held: None, several: Vec::new() };
        if let Some(row) = state.row.as_ref().filter(|row| row.lease.is_held(host)) {
            state.held = Some(row.kind);
            if row.kind != Mode::Exclusive {
                for lease in read_several(tx, key, host)? {
                    if lease.is_held(host) {
                        state.several.push(lease);
                    } else {
                        remove_one(tx, key, lease.fence)?;
                    }
                }
                state.held = state.held.filter(|_| !state.several.is_empty());
            }
        }
        Ok(state)
    }

    /// That of the last grant, or a higher one.
    fn fence(&self) -> rusqlite::Result<u64> {
        self.row.as_ref().map_or_else(|| forgotten(self.tx), |row| Ok(row.lease.fence))
    }

    /// The exclusive lease, while it runs.
    pub fn exclusive(&self) -> Option<&HolderRow> {
        let row = self.row.as_ref().filter(|_| self.held == Some(Mode::Exclusive));
        row.map(|row| &row.lease)
    }

    /// The lease of one of several.
    fn one_of(&self, token: &OwnerToken) -> Option<&HolderRow> {
        self.several.iter().find(|lease| lease.is_of(token))
    }

    /// The running lease of this token, whose owner is asking and so alive.
    pub fn lease_of(&self, token: &OwnerToken) -> Option<&HolderRow> {
        let exclusive = self.row.as_ref().map(|row| &row.lease);
        self.one_of(token).or(exclusive.filter(|lease| lease.is_held_by(token, self.host)))
    }

    fn admits(&self, kind: Mode) -> bool {
        match self.held {
            None => true,
            Some(Mode::Exclusive) => false,
            Some(held) if held != kind => false,
            Some(Mode::Shared) => true,
            Some(Mode::Semaphore(permits)) => self.several.len() < permits.get() as usize,
        }
    }

    /// Whose lease decides how long the lock is held: of readers the last to end, of permits the first.
    fn deciding(&self) -> Option<&HolderRow> {
        match self.held {
            Some(Mode::Shared) => self.several.iter().max_by_key(|lease| lease.until),
            Some(Mode::Semaphore(_)) => self.several.iter().min_by_key(|lease| lease.until),
            _ => self.exclusive(),
        }
    }

    /// When there will be room even if nobody gives anything back; `None` for a free lock.
    pub fn until(&self) -> Option<Deadline> {
        self.deciding().map(|lease| lease.until)
    }

    /// The holder with whose lease [`LockState::until`] ends.
    pub fn holding(&self) -> Option<Holder> {
        self.deciding().map(HolderRow::holding)
    }

    /// The processes with whose death there may be room: those of the holder, of all readers together, of each
    /// permit.
    pub fn processes(&self) -> Vec<Processes> {
        let each = self.several.iter().chain(self.exclusive()).map(|lease| &lease.processes);
        match self.held {
            Some(Mode::Shared) => vec![each.fold(Processes::default(), Processes::and)],
            _ => each.cloned().collect(),
        }
    }

    /// The kind as which the lock is in use, held or waited for, when that does not go with this one.
    pub fn other_kind(&self, kind: Mode) -> rusqlite::Result<Option<Mode>> {
        let in_use = match self.held {
            None => self.first_alive()?.map(|first| first.kind),
            held => held,
        };
        Ok(in_use.filter(|found| !found.goes_with(kind)))
    }

    /// Whether the lock can be granted to whoever has this place, or to one without a place.
    pub fn has_room(&self, kind: Mode, place: Option<i64>) -> rusqlite::Result<bool> {
        Ok(self.admits(kind) && queue::is_first(self.tx, self.key, place)?)
    }

    /// Why there is no grant for who has this place.
    pub fn busy(&self, place: Option<i64>) -> rusqlite::Result<Busy> {
        let ahead = Some(queue::ahead(self.tx, self.key, place)?);
        Ok(Busy { key: self.key.clone(), holder: self.holding(), ahead })
    }

    /// Grants the lock for one TTL, or confirms a grant: it was handed over, or the caller asks again.
    pub fn take(&mut self, request: &Request) -> rusqlite::Result<FencingToken> {
        let host = self.host;
        let fence = match self.lease_of(&request.token) {
            Some(mine) => {
                let lease = HolderRow::of(request, mine.fence, mine.since, host);
                self.hold(request.mode, lease.clone())?;
                lease.fence
            }
            None => self.grant(request.mode, |fence| HolderRow::of(request, fence, unix_millis(), host))?,
        };
        Ok(FencingToken(fence))
    }

    /// Extends the lease, or takes the lock again that is gone: see [`Store::renew`](crate::lock::Store::renew).
    pub fn renew(&mut self, request: &Request, fence: Option<FencingToken>) -> rusqlite::Result<Renewal> {
        if let Some(mine) = self.lease_of(&request.token) {
            if mine.broken {
                return Ok(Renewal::Lost(Some(mine.holding())));
            }
            let now = BootTime::now();
            let until = mine.until.max(now.plus(request.ttl.duration()));
            let lease = HolderRow { renewed: now, until, ..mine.clone() };
            self.hold(self.held.unwrap_or_default(), lease)?;
            return Ok(Renewal::Extended);
        }
        let Some(fence) = fence else { return Ok(Renewal::Lost(self.holding())) };
        let untouched = match &self.row {
            // The file is a new one, unless the key was forgotten.
            None => forgotten(self.tx)? < fence.0,
            Some(row) if row.kind == Mode::Exclusive && row.lease.fence == fence.0 => {
                if row.lease.is_given_back() {
                    return Ok(Renewal::Released);
                }
                // It has expired, and nobody else was granted it since.
                row.lease.is_of(&request.token)
                    && self.host.is_this_boot(&row.lease.boot)
                    && !row.lease.broken
            }
            // An older copy took the place of the file. Whoever came since has a higher one.
            Some(row) => self.held.is_none() && row.lease.fence < fence.0,
        };
        if !untouched {
            return Ok(Renewal::Lost(self.holding()));
        }
        let lease = HolderRow::of(request, fence.0, unix_millis(), self.host);
        // Those that the file names: somebody else may have taken the lock.
        let processes = self.row.as_ref().map(|row| row.lease.processes.clone()).unwrap_or_default();
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
        let one = self.one_of(token).cloned();
        // Whoever asks is alive, so this is looked at without regard to the processes.
        let exclusive = self.row.as_ref().map(|row| &row.lease);
        let is_mine = |lease: &&HolderRow| lease.is_of(token) && self.host.is_this_boot(&lease.boot);
        let exclusive = exclusive.filter(is_mine).cloned();
        let is_one_of_several = one.is_some();
        let Some(lease) = one.or(exclusive) else {
            let wake = match self.held {
                _ if !left_queue => Vec::new(),
                // Who may be the first in line now has to watch the holder.
                None | Some(Mode::Exclusive) => self.first_alive()?.into_iter().collect(),
                Some(_) => self.hand_over(None)?,
            };
            return Ok((false, wake));
        };
        if is_one_of_several {
            self.remove(lease.fence)?;
        } else {
            self.held = None;
        }
        let held = !lease.until.has_passed();
        if held && !lease.broken && !cancel && !lease.keep.has_passed() {
            // Nobody's any more: only the time holds it.
            let kind = self.row.as_ref().map_or(Mode::Exclusive, |row| row.kind);
            let (until, owner, processes) = (lease.keep, None, Processes::default());
            self.hold(kind, HolderRow { until, owner, processes, ..lease })?;
            return Ok((true, self.first_alive()?.into_iter().collect()));
        }
        Ok((held, self.pass_on()?))
    }

    /// Takes the lock from its holders, or from this one. Returns whom to wake, too.
    pub fn break_from(&mut self, token: Option<&OwnerToken>) -> rusqlite::Result<(Broken, Vec<QueueEntry>)> {
        let Some(kind) = self.held else { return Ok((Broken::Free, Vec::new())) };
        let held: Vec<HolderRow> = self.several.iter().chain(self.exclusive()).cloned().collect();
        let mut outcome = self.holding().map_or(Broken::Free, Broken::Other);
        let mut freed = false;
        for lease in held.into_iter().filter(|lease| token.is_none_or(|token| lease.is_of(token))) {
            let holding = lease.holding();
            // Told before, or there is nobody to tell.
            if lease.broken || lease.owner.is_none() {
                match kind {
                    Mode::Exclusive => self.held = None,
                    _ => self.remove(lease.fence)?,
                }
                freed = true;
                if !matches!(outcome, Broken::Told(_)) {
                    outcome = Broken::Freed(holding);
                }
            } else {
                self.hold(kind, HolderRow { broken: true, ..lease })?;
                outcome = Broken::Told(holding);
            }
        }
        let wake = if freed { self.pass_on()? } else { Vec::new() };
        Ok((outcome, wake))
    }

    /// Grants the lock. Returns the fencing token.
    fn grant(&mut self, kind: Mode, lease: impl FnOnce(u64) -> HolderRow) -> rusqlite::Result<u64> {
        let fence = next_fence(self.fence()?);
        self.hold(kind, lease(fence))?;
        Ok(fence)
    }

    /// Writes down a lease.
    fn hold(&mut self, kind: Mode, lease: HolderRow) -> rusqlite::Result<()> {
        let row = if kind == Mode::Exclusive {
            LockRow { lease, kind }
        } else {
            let fence = self.row.as_ref().map_or(0, |row| row.lease.fence).max(lease.fence);
            write_one(self.tx, self.key, &lease, self.host)?;
            self.several.retain(|other| other.fence != lease.fence);
            self.several.push(lease);
            LockRow { lease: HolderRow::of_several(fence, self.host), kind }
        };
        write(self.tx, self.key, &row, self.host)?;
        self.row = Some(row);
        self.held = Some(kind);
        Ok(())
    }

    /// One of several is gone.
    fn remove(&mut self, fence: u64) -> rusqlite::Result<()> {
        remove_one(self.tx, self.key, fence)?;
        self.several.retain(|lease| lease.fence != fence);
        self.held = self.held.filter(|_| !self.several.is_empty());
        Ok(())
    }

    /// Gives the lock on. A lock for which nobody waits is free then. Returns whom to wake.
    fn pass_on(&mut self) -> rusqlite::Result<Vec<QueueEntry>> {
        let wake = self.hand_over(None)?;
        if self.held.is_none() {
            set_free(self.tx, self.key)?;
        }
        Ok(wake)
    }

    /// Gives the lock to the first waiters that are alive, as many as there is room for, but not to `mine`.
    /// Returns whom to wake: them, and the first in line behind them.
    pub fn hand_over(&mut self, mine: Option<i64>) -> rusqlite::Result<Vec<QueueEntry>> {
        let mut served = Vec::new();
        while self.held != Some(Mode::Exclusive)
            && let Some(first) = self.first_alive()?
            && mine != Some(first.ticket)
            && self.admits(first.kind)
        {
            let (first, host) = (queue::serve(self.tx, first)?, self.host);
            self.grant(first.kind, |fence| HolderRow::claim(&first, fence, host))?;
            served.push(first);
        }
        served.extend(self.first_alive()?);
        Ok(served)
    }

    fn first_alive(&self) -> rusqlite::Result<Option<QueueEntry>> {
        first_alive(self.tx, self.key, self.host)
    }
}
