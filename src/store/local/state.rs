//! One key within a transaction: who holds it now, and who is next.

use rusqlite::Transaction;

use super::process::Processes;
use super::queue::{self, Place, first_alive};
use super::row::{
    LockRow, Row, SEVERAL, next_fence, read, read_several, remove_one, set_free, write, write_one,
};
use crate::clock::Deadline;
use crate::lock::{Holding, Key, Kind, OwnerToken};

pub struct State<'a> {
    tx: &'a Transaction<'a>,
    key: &'a Key,
    boot: &'a str,
    /// `None` for a key that was never granted.
    pub row: Option<LockRow>,
    /// How it is held; `None` for a free lock.
    pub held: Option<Kind>,
    /// Those who hold it together.
    pub several: Vec<Row>,
}

impl<'a> State<'a> {
    pub fn look(tx: &'a Transaction, key: &'a Key, boot: &'a str) -> rusqlite::Result<State<'a>> {
        let row = read(tx, key)?;
        let mut state = State { tx, key, boot, row, held: None, several: Vec::new() };
        if let Some(row) = state.row.as_ref().filter(|row| row.lease.is_held(boot)) {
            state.held = Some(row.kind);
            if row.lease.owner.as_deref() == Some(SEVERAL) {
                for lease in read_several(tx, key)? {
                    if lease.is_held(boot) {
                        state.several.push(lease);
                    } else {
                        remove_one(tx, key, lease.owner.as_deref().unwrap_or_default())?;
                    }
                }
                state.held = state.held.filter(|_| !state.several.is_empty());
            }
        }
        Ok(state)
    }

    pub fn fence(&self) -> u64 {
        self.row.as_ref().map_or(0, |row| row.lease.fence)
    }

    /// The exclusive lease, while it runs.
    pub fn exclusive(&self) -> Option<&Row> {
        let row = self.row.as_ref().filter(|_| self.held == Some(Kind::Exclusive));
        row.map(|row| &row.lease)
    }

    /// The lease of one of several.
    pub fn one_of(&self, token: &OwnerToken) -> Option<&Row> {
        self.several.iter().find(|lease| lease.is_of(token))
    }

    /// The running lease of this token, whose owner is asking and so alive.
    pub fn lease_of(&self, token: &OwnerToken) -> Option<&Row> {
        let exclusive = self.row.as_ref().map(|row| &row.lease);
        self.one_of(token).or(exclusive.filter(|lease| lease.is_held_by(token, self.boot)))
    }

    pub fn admits(&self, kind: Kind) -> bool {
        match self.held {
            None => true,
            Some(Kind::Exclusive) => false,
            Some(held) if held != kind => false,
            Some(Kind::Shared) => true,
            Some(Kind::Permits(permits)) => self.several.len() < permits.get() as usize,
        }
    }

    /// Whose lease decides how long the lock is held: of readers the last to end, of permits the first.
    fn deciding(&self) -> Option<&Row> {
        match self.held {
            Some(Kind::Shared) => self.several.iter().max_by_key(|lease| lease.until),
            Some(Kind::Permits(_)) => self.several.iter().min_by_key(|lease| lease.until),
            _ => self.exclusive(),
        }
    }

    pub fn until(&self) -> Option<Deadline> {
        self.deciding().map(|lease| lease.until)
    }

    pub fn holding(&self) -> Option<Holding> {
        self.deciding().map(Row::holding)
    }

    /// The processes with whose death there may be room: those of the holder, of all readers together, of each
    /// permit.
    pub fn processes(&self) -> Vec<Processes> {
        let each = self.several.iter().chain(self.exclusive()).map(|lease| &lease.processes);
        match self.held {
            Some(Kind::Shared) => vec![each.fold(Processes::default(), Processes::and)],
            _ => each.cloned().collect(),
        }
    }

    /// Grants the lock. Returns the fencing token.
    pub fn grant(&mut self, kind: Kind, lease: impl FnOnce(u64) -> Row) -> rusqlite::Result<u64> {
        let fence = next_fence(self.fence());
        self.hold(kind, lease(fence))?;
        Ok(fence)
    }

    /// Writes down a lease.
    pub fn hold(&mut self, kind: Kind, lease: Row) -> rusqlite::Result<()> {
        let fence = self.fence().max(lease.fence);
        let row = if kind == Kind::Exclusive {
            LockRow { lease, kind }
        } else {
            write_one(self.tx, self.key, &lease)?;
            self.several.retain(|other| other.owner != lease.owner);
            self.several.push(lease);
            LockRow { lease: Row::of_several(fence, self.boot), kind }
        };
        write(self.tx, self.key, &row)?;
        self.row = Some(row);
        self.held = Some(kind);
        Ok(())
    }

    /// One of several is gone.
    pub fn remove(&mut self, token: &str) -> rusqlite::Result<()> {
        remove_one(self.tx, self.key, token)?;
        self.several.retain(|lease| lease.owner.as_deref() != Some(token));
        self.held = self.held.filter(|_| !self.several.is_empty());
        Ok(())
    }

    /// Gives the lock to the first waiters that are alive, as many as there is room for, but not to `mine`. Returns
    /// whom to wake: them, and the first in line behind them. A lock for which nobody waits is free then.
    pub fn hand_over(&mut self, mine: Option<i64>) -> rusqlite::Result<Vec<Place>> {
        let mut served = Vec::new();
        while self.held != Some(Kind::Exclusive)
            && let Some(first) = first_alive(self.tx, self.key, self.boot)?
            && mine != Some(first.ticket)
            && self.admits(first.kind)
        {
            queue::drop_place(self.tx, first.ticket)?;
            let boot = self.boot;
            self.grant(first.kind, |fence| Row::claim(&first, fence, boot))?;
            served.push(first);
        }
        if self.held.is_none() {
            set_free(self.tx, self.key)?;
        }
        served.extend(queue::first(self.tx, self.key)?);
        Ok(served)
    }
}
