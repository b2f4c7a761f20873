//! The embedded store: one SQLite file, for the processes of one host.
//!
//! Every call is one immediate transaction, so calls are atomic and come one after the other. Leases
//! are on the boot clock, beside the id of the boot: after a reboot nothing is held.

mod database;
mod process;
mod queue;
mod row;
mod wake;

use std::path::PathBuf;
use std::time::Duration;

use self::database::Database;
use self::process::Processes;
use self::queue::{Place, first_alive};
use self::row::{
    CLAIM, RELEASED, Row, extend, free_if_alone, hand_over, hold, hold_if_free, known_keys, next_fence, read,
    set_free,
};
use self::wake::{Bell, ring};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    Broken, Busy, FencingToken, Holding, Key, LockStatus, OwnerToken, Patience, Renewal, Request, Store,
    StoreError, Take, Waiter, unix_millis,
};

/// A waiter looks at the queue this often even if nobody rings: its bell may be in another network
/// namespace.
const FALLBACK: Duration = Duration::from_secs(5);

pub struct Local {
    database: Database,
    /// What wakes this process in the queue.
    bell: Option<Bell>,
    /// Our place in the queue: kept when a grant runs out before it is confirmed.
    ticket: Option<i64>,
    /// The holder's processes while we are the first in line: their death frees the lock at once.
    holder: Processes,
    ask_at: Deadline,
    /// Who is to be told that it is the first in line now.
    next: Vec<Place>,
    /// A transaction of ours was carried out: there may be something to give back.
    asked: bool,
}

impl Local {
    /// A store in the file at `path`, opened when it is asked for something.
    pub fn new(path: Option<PathBuf>) -> Local {
        Local {
            database: Database::new(path),
            bell: None,
            ticket: None,
            holder: Processes::default(),
            ask_at: BootTime::now(),
            next: Vec::new(),
            asked: false,
        }
    }

    fn ask(&mut self, request: &Request, queue: bool, patience: &Patience) -> Result<Take, StoreError> {
        if queue && self.bell.is_none() {
            self.bell = Some(Bell::hang().map_err(|error| self.database.unusable(&error))?);
        }
        let bell = if queue { self.bell.as_ref().map(Bell::name) } else { None };
        let mut holder = Processes::default();
        let mut ask_at = Deadline::after(FALLBACK);
        let mut ticket = self.ticket;
        let (take, wake) = self.database.transact(patience, |tx, boot| {
            if !queue && let Some(fence) = hold_if_free(tx, request, boot)? {
                return Ok((Take::Granted(FencingToken(fence)), Vec::new()));
            }
            let row = read(tx, &request.key)?;
            let fence = row.as_ref().map_or(0, |row| row.fence);
            if row.as_ref().is_some_and(|row| row.is_held_by(&request.token, boot)) {
                // Handed over, or the caller asks again.
                hold(tx, request, fence, row.as_ref().map_or(0, |row| row.since), boot)?;
                let first = queue::first(tx, &request.key)?;
                return Ok((Take::Granted(FencingToken(fence)), first.into_iter().collect()));
            }
            let held = row.as_ref().filter(|row| row.is_held(boot));
            let place = bell.map(|bell| queue::join(tx, request, bell, self.ticket, boot)).transpose()?;
            ticket = place;
            if let Some(row) = held {
                let ahead = queue::ahead(tx, &request.key, place)?;
                if ahead == 0 {
                    ask_at = ask_at.min(row.until);
                    holder = row.processes.clone();
                }
                return Ok((Take::Busy(Busy { holder: Some(row.holding()), ahead }), Vec::new()));
            }
            match first_alive(tx, &request.key, boot)? {
                Some(first) if place != Some(first.ticket) => {
                    let holder = Holding {
                        metadata: Some(first.metadata.clone()),
                        left: Some(CLAIM),
                        ..Holding::default()
                    };
                    let wake = hand_over(tx, &request.key, fence, first, boot)?;
                    let ahead = queue::ahead(tx, &request.key, place)?;
                    Ok((Take::Busy(Busy { holder: Some(holder), ahead }), wake))
                }
                first => {
                    let fence = next_fence(fence);
                    hold(tx, request, fence, unix_millis(), boot)?;
                    // Without anybody in line there is nobody behind us either.
                    let next = match first {
                        Some(_) => {
                            queue::leave(tx, &request.token)?;
                            queue::first(tx, &request.key)?
                        }
                        None => None,
                    };
                    Ok((Take::Granted(FencingToken(fence)), next.into_iter().collect()))
                }
            }
        })?;
        self.holder = holder;
        self.ticket = ticket;
        self.ask_at = ask_at;
        self.asked = true;
        match take {
            Take::Granted(_) => self.next = wake,
            Take::Busy(_) => ring(wake),
        }
        Ok(take)
    }

    /// Gives the lock back. To `cancel` is to leave the queue too, and not to care for the min-hold.
    fn give_back(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        cancel: bool,
        patience: &Patience,
    ) -> Result<bool, StoreError> {
        let waited = self.bell.is_some();
        let (released, wake) = self.database.transact(patience, |tx, boot| {
            // Who stood in line is likely to leave others behind.
            if !waited && free_if_alone(tx, key, token, boot)? {
                return Ok((true, Vec::new()));
            }
            // Who may be the first in line now has to watch the holder.
            let moved_up = if cancel && queue::leave(tx, token)? { queue::first(tx, key)? } else { None };
            let ours = |row: &Row| row.owner.as_deref() == Some(token.expose()) && row.boot == boot;
            let Some(row) = read(tx, key)?.filter(ours) else {
                return Ok((false, moved_up.into_iter().collect()));
            };
            // Whoever asks is alive.
            let held = !row.until.has_passed() && !row.broken;
            if held && !cancel && !row.keep.has_passed() {
                // Nobody's any more: only the time holds it.
                tx.prepare_cached("UPDATE lock SET until = keep, owner = ?2, pids = '' WHERE key = ?1")?
                    .execute([key.as_str(), RELEASED])?;
                return Ok((true, queue::first(tx, key)?.into_iter().collect()));
            }
            Ok((held, set_free(tx, key, row.fence, boot)?))
        })?;
        ring(wake);
        Ok(released)
    }
}

impl Store for Local {
    fn take(&mut self, request: &Request, patience: &Patience) -> Result<Take, StoreError> {
        self.ask(request, false, patience)
    }

    fn line_up(&mut self, request: &Request, patience: &Patience) -> Result<Take, StoreError> {
        self.ask(request, true, patience)
    }

    fn wait(&mut self, _request: &Request, patience: &Patience) -> Result<bool, StoreError> {
        match &self.bell {
            Some(bell) => bell.wait(&self.holder, self.ask_at, patience),
            None => Ok(true),
        }
    }

    fn get_ready(&mut self) {
        // Nobody stands in line behind a lock that was free, most of the time.
        let likely = if self.bell.is_some() { &row::AHEAD[..] } else { &row::AHEAD[..1] };
        self.database.prepare(likely);
    }

    fn settle(&mut self, _request: &Request) {
        ring(std::mem::take(&mut self.next));
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Patience,
    ) -> Result<Renewal, StoreError> {
        let (renewal, wake) = self.database.transact(patience, |tx, boot| {
            let row = read(tx, &request.key)?;
            let ours = |row: &Row| {
                row.owner.as_deref() == Some(request.token.expose()) && row.boot == boot && !row.broken
            };
            match (&row, fence) {
                (Some(row), _) if ours(row) && row.is_held(boot) => {
                    extend(tx, request)?;
                    Ok((Renewal::Extended, queue::first(tx, &request.key)?.into_iter().collect()))
                }
                // Expired, and nobody was granted it since; or the file is a new one.
                (Some(row), Some(fence)) if ours(row) && row.fence == fence.0 => {
                    hold(tx, request, fence.0, row.since, boot)?;
                    Ok((Renewal::Healed, Vec::new()))
                }
                (None, Some(fence)) => {
                    hold(tx, request, fence.0, unix_millis(), boot)?;
                    Ok((Renewal::Healed, Vec::new()))
                }
                (Some(row), Some(fence)) if row.fence == fence.0 && row.is_given_back() => {
                    Ok((Renewal::Released, Vec::new()))
                }
                _ => Ok((
                    Renewal::Lost(row.filter(|row| row.is_held(boot)).map(|row| row.holding())),
                    Vec::new(),
                )),
            }
        })?;
        ring(wake);
        Ok(renewal)
    }

    fn release(&mut self, key: &Key, token: &OwnerToken, patience: &Patience) -> Result<bool, StoreError> {
        self.give_back(key, token, false, patience)
    }

    fn withdraw(&mut self, request: &Request, patience: &Patience) -> Result<(), StoreError> {
        if !self.asked {
            return Ok(());
        }
        self.give_back(&request.key, &request.token, true, patience).map(drop)
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        patience: &Patience,
    ) -> Result<Option<Duration>, StoreError> {
        let row = self.database.transact(patience, |tx, boot| {
            Ok(read(tx, key)?.filter(|row| row.is_held(boot) && !row.broken))
        })?;
        Ok(row.filter(|row| row.owner.as_deref() == Some(token.expose())).map(|row| row.until.left()))
    }

    fn status(&mut self, keys: &[Key], patience: &Patience) -> Result<Vec<LockStatus>, StoreError> {
        self.database.transact(patience, |tx, boot| {
            let known = if keys.is_empty() { known_keys(tx)? } else { keys.to_vec() };
            let mut locks = Vec::new();
            for key in known {
                let holders = read(tx, &key)?.filter(|row| row.is_held(boot)).map(|row| row.holding());
                let waiters = queue::alive(tx, &key, boot)?
                    .into_iter()
                    .map(|place| Waiter { metadata: place.metadata });
                locks.push(LockStatus {
                    holders: holders.into_iter().collect(),
                    waiters: waiters.collect(),
                    key,
                });
            }
            Ok(locks)
        })
    }

    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        patience: &Patience,
    ) -> Result<Broken, StoreError> {
        let (broken, wake) = self.database.transact(patience, |tx, boot| {
            let Some(row) = read(tx, key)?.filter(|row| row.is_held(boot)) else {
                return Ok((Broken::Free, Vec::new()));
            };
            let holding = row.holding();
            if token.is_some_and(|token| row.owner.as_deref() != Some(token.expose())) {
                return Ok((Broken::Other(holding), Vec::new()));
            }
            // Told before, or there is nobody to tell.
            if row.broken || row.owner.as_deref() == Some(RELEASED) {
                return Ok((Broken::Freed(holding), set_free(tx, key, row.fence, boot)?));
            }
            tx.execute("UPDATE lock SET broken = 1 WHERE key = ?1", [key.as_str()])?;
            Ok((Broken::Told(holding), Vec::new()))
        })?;
        ring(wake);
        Ok(broken)
    }
}
