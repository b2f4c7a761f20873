//! The embedded store: one SQLite file, for the processes of one host.
//!
//! Every call is one immediate transaction, so calls are atomic and come one after the other. Leases
//! are on the boot clock, beside the id of the boot: after a reboot nothing is held.

mod database;
mod process;
mod queue;
mod row;
mod state;
mod wake;

use std::path::PathBuf;
use std::time::Duration;

use self::database::Database;
use self::process::Processes;
use self::queue::{Place, first_alive};
use self::row::{RELEASED, Row, free_if_alone, hold_if_free, known_keys};
use self::state::State;
use self::wake::{Bell, ring};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    Broken, Busy, FencingToken, Key, Kind, LockStatus, OwnerToken, Patience, Renewal, Request, Store,
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
    /// The processes of the holders while we are the first in line: their death frees the lock at once.
    holders: Vec<Processes>,
    ask_at: Deadline,
    /// Who is to be told that it is the first in line now.
    next: Vec<Place>,
    /// A transaction of ours was carried out: there may be something to give back.
    asked: bool,
}

/// What a request is told.
enum Answer {
    Take(Take),
    OtherKind(Kind),
}

impl Answer {
    fn granted(fence: u64) -> Answer {
        Answer::Take(Take::Granted(FencingToken(fence)))
    }
}

impl Local {
    /// A store in the file at `path`, opened when it is asked for something.
    pub fn new(path: Option<PathBuf>) -> Local {
        Local {
            database: Database::new(path),
            bell: None,
            ticket: None,
            holders: Vec::new(),
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
        let mut holders = Vec::new();
        let mut ask_at = Deadline::after(FALLBACK);
        let mut ticket = self.ticket;
        let (answer, wake) = self.database.transact(patience, |tx, boot| {
            if !queue
                && request.kind == Kind::Exclusive
                && let Some(fence) = hold_if_free(tx, request, boot)?
            {
                return Ok((Answer::granted(fence), Vec::new()));
            }
            let mut state = State::look(tx, &request.key, boot)?;
            if let Some(mine) = state.lease_of(&request.token) {
                // Handed over, or the caller asks again.
                let fence = mine.fence;
                let lease = Row::of(request, fence, mine.since, boot);
                state.hold(request.kind, lease)?;
                return Ok((Answer::granted(fence), queue::first(tx, &request.key)?.into_iter().collect()));
            }
            let first = first_alive(tx, &request.key, boot)?;
            let in_use = state.held.or(first.as_ref().map(|first| first.kind));
            if let Some(found) = in_use.filter(|found| !found.goes_with(request.kind)) {
                return Ok((Answer::OtherKind(found), Vec::new()));
            }
            let place = bell.map(|bell| queue::join(tx, request, bell, self.ticket, boot)).transpose()?;
            ticket = place;
            // Those in line go first.
            let mut wake = state.hand_over(place)?;
            let first = queue::first(tx, &request.key)?;
            if state.admits(request.kind) && first.is_none_or(|first| place == Some(first.ticket)) {
                let fence =
                    state.grant(request.kind, |fence| Row::of(request, fence, unix_millis(), boot))?;
                queue::leave(tx, &request.token)?;
                wake.extend(state.hand_over(None)?);
                return Ok((Answer::granted(fence), wake));
            }
            let ahead = queue::ahead(tx, &request.key, place)?;
            if ahead == 0 {
                ask_at = state.until().map_or(ask_at, |until| ask_at.min(until));
                holders = state.processes();
            }
            wake.retain(|woken| place != Some(woken.ticket));
            Ok((Answer::Take(Take::Busy(Busy { holder: state.holding(), ahead })), wake))
        })?;
        self.holders = holders;
        self.ticket = ticket;
        self.ask_at = ask_at;
        self.asked = true;
        match &answer {
            Answer::Take(Take::Granted(_)) => self.next = wake,
            _ => ring(wake),
        }
        match answer {
            Answer::Take(take) => Ok(take),
            Answer::OtherKind(found) => Err(StoreError::OtherKind { key: request.key.clone(), found }),
        }
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
            let mut state = State::look(tx, key, boot)?;
            let one = state.one_of(token).cloned();
            // Whoever asks is alive, so this is looked at without regard to the processes.
            let row = state.row.as_ref().map(|row| row.lease.clone());
            let Some(lease) = one.clone().or(row.filter(|lease| lease.is_of(token) && lease.boot == boot))
            else {
                let mut wake: Vec<Place> = moved_up.into_iter().collect();
                if cancel && state.held.is_some_and(|held| held != Kind::Exclusive) {
                    wake.extend(state.hand_over(None)?);
                }
                return Ok((false, wake));
            };
            let held = !lease.until.has_passed();
            let kept = held && !lease.broken && !cancel && !lease.keep.has_passed();
            if kept {
                // Nobody's any more: only the time holds it.
                let anonymous =
                    if one.is_some() { format!("{RELEASED} {}", lease.fence) } else { RELEASED.to_owned() };
                let kind = state.row.as_ref().map_or(Kind::Exclusive, |row| row.kind);
                if one.is_some() {
                    state.remove(token.expose())?;
                }
                state.hold(
                    kind,
                    Row {
                        until: lease.keep,
                        owner: Some(anonymous),
                        processes: Processes::default(),
                        ..lease
                    },
                )?;
                return Ok((true, queue::first(tx, key)?.into_iter().collect()));
            }
            if one.is_some() {
                state.remove(token.expose())?;
            } else {
                state.held = None;
            }
            Ok((held, state.hand_over(None)?))
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
            Some(bell) => bell.wait(&self.holders, self.ask_at, patience),
            None => Ok(true),
        }
    }

    fn get_ready(&mut self, _request: &Request) {
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
            let mut state = State::look(tx, &request.key, boot)?;
            let next = || queue::first(tx, &request.key).map(|first| first.into_iter().collect());
            if let Some(mine) = state.lease_of(&request.token) {
                if mine.broken {
                    return Ok((Renewal::Lost(Some(mine.holding())), Vec::new()));
                }
                let kind = state.held.unwrap_or_default();
                let until = mine.until.max(Deadline::after(request.ttl.duration()));
                let lease = Row { until, ..mine.clone() };
                state.hold(kind, lease)?;
                return Ok((Renewal::Extended, next()?));
            }
            // Expired, or the file is a new one. Nobody else was granted it since, or there is room.
            let untouched = match (&state.row, fence, request.kind) {
                (_, None, _) => false,
                (None, ..) => true,
                (Some(row), Some(fence), Kind::Exclusive) => {
                    let lease = &row.lease;
                    lease.is_of(&request.token)
                        && lease.fence == fence.0
                        && lease.boot == boot
                        && !lease.broken
                }
                // Given back, or broken: what was expired has been noticed before.
                (Some(_), ..) => false,
            };
            let given_back = state.row.as_ref().is_some_and(|row| {
                row.kind == Kind::Exclusive
                    && fence.is_some_and(|fence| fence.0 == row.lease.fence)
                    && row.lease.is_given_back()
            });
            if given_back {
                return Ok((Renewal::Released, Vec::new()));
            }
            if let Some(fence) = fence.filter(|_| untouched) {
                state.hold(request.kind, Row::of(request, fence.0, unix_millis(), boot))?;
                return Ok((Renewal::Healed, next()?));
            }
            Ok((Renewal::Lost(state.holding()), Vec::new()))
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
        self.database.transact(patience, |tx, boot| {
            let state = State::look(tx, key, boot)?;
            let mine = state.lease_of(token).filter(|lease| !lease.broken);
            Ok(mine.map(|lease| lease.until.left()))
        })
    }

    fn status(&mut self, keys: &[Key], patience: &Patience) -> Result<Vec<LockStatus>, StoreError> {
        self.database.transact(patience, |tx, boot| {
            let known = if keys.is_empty() { known_keys(tx)? } else { keys.to_vec() };
            let mut locks = Vec::new();
            for key in known {
                let state = State::look(tx, &key, boot)?;
                let holders = state.several.iter().chain(state.exclusive()).map(Row::holding).collect();
                let waiters = queue::alive(tx, &key, boot)?;
                let kind = state.held.or(waiters.first().map(|first| first.kind)).unwrap_or_default();
                let waiters =
                    waiters.into_iter().map(|place| Waiter { kind: place.kind, metadata: place.metadata });
                let waiters = waiters.collect();
                locks.push(LockStatus { kind, holders, waiters, key });
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
            let mut state = State::look(tx, key, boot)?;
            let Some(kind) = state.held else { return Ok((Broken::Free, Vec::new())) };
            let held: Vec<Row> = state.several.iter().chain(state.exclusive()).cloned().collect();
            let mut outcome = state.holding().map_or(Broken::Free, Broken::Other);
            let mut freed = false;
            for lease in held.into_iter().filter(|lease| token.is_none_or(|token| lease.is_of(token))) {
                let owner = lease.owner.clone().unwrap_or_default();
                let holding = lease.holding();
                // Told before, or there is nobody to tell.
                if lease.broken || owner.starts_with(RELEASED) {
                    match kind {
                        Kind::Exclusive => state.held = None,
                        _ => state.remove(&owner)?,
                    }
                    freed = true;
                    if !matches!(outcome, Broken::Told(_)) {
                        outcome = Broken::Freed(holding);
                    }
                } else {
                    state.hold(kind, Row { broken: true, ..lease })?;
                    outcome = Broken::Told(holding);
                }
            }
            let wake = if freed { state.hand_over(None)? } else { Vec::new() };
            Ok((outcome, wake))
        })?;
        ring(wake);
        Ok(broken)
    }
}
