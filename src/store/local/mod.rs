//! The embedded store: one SQLite file, for the processes of one host.
//!
//! Every call is one immediate transaction, so calls are atomic and come one after the other. Leases
//! are on the boot clock, beside the id of the boot: after a reboot nothing is held.

mod database;
mod file;
mod health;
mod holders;
mod host;
mod liveness;
mod lock_state;
mod owner_hash;
mod queue;
mod repair;
mod wakeup;

use std::path::PathBuf;
use std::time::Duration;

use self::database::Database;
pub use self::health::examine;
use self::holders::{HolderRow, free_if_alone, hold_if_free, known_keys};
use self::lock_state::LockState;
use self::queue::{INTERVAL, QueueEntry};
use self::wakeup::{Awaited, WakeSocket, ring};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, Broken, Capabilities, FencingToken, Key, LockStatus, Mode, OwnerToken, Renewal, Request,
    Store, StoreAdmin, StoreError, Survey, Timeout, TokenMint, Ttl, Waiter,
};

/// Of a file on this host.
pub const CAPABILITIES: Capabilities = Capabilities {
    shared: Ok(()),
    semaphore: Ok(()),
    queue: true,
    ttl_can_change: true,
    shortest_ttl: Ttl::SHORTEST,
    ttl_resolution: Duration::from_millis(1),
    replicas: Err("local: has no replicas; the file is on this host only"),
    token_mint: TokenMint::Caller,
    outlives_process: true,
};

/// One in so many grants, of 256, looks for keys that can be forgotten: then the others need not.
const FORGETFUL: u8 = 4;
/// It looks no longer than this.
const FORGETTING: Duration = Duration::from_millis(50);

/// A [`Store`] in a file of this host.
pub struct Local {
    database: Database,
    /// What wakes this process in the queue.
    bell: Option<WakeSocket>,
    /// Our place in the queue: kept when a grant runs out before it is confirmed.
    ticket: Option<i64>,
    /// This process stood in line.
    has_waited: bool,
    watched: Awaited,
    ask_at: Deadline,
    /// Who is to be told that it is the first in line now.
    next: Vec<QueueEntry>,
    /// A transaction of ours was carried out: there may be something to give back.
    asked: bool,
    /// The last request was granted, and nobody else was told so far.
    is_granted: bool,
}

impl Local {
    /// A store in the file at `path`, opened when it is asked for something.
    ///
    /// With the death of all of the processes `holders` its locks are free; without any, with the end of their leases.
    pub fn new(path: Option<PathBuf>, holders: Vec<u32>) -> Local {
        Local {
            database: Database::new(path, holders),
            bell: None,
            ticket: None,
            has_waited: false,
            watched: Awaited::default(),
            ask_at: BootTime::now(),
            next: Vec::new(),
            asked: false,
            is_granted: false,
        }
    }
}

impl Store for Local {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], patience: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let (answer, wake) = self.database.transact(patience, |tx, host| {
            if let [request] = requests
                && request.mode == Mode::Exclusive
                && let Some(fence) = hold_if_free(tx, request, host)?
            {
                return Ok((Ok(AcquireOutcome::granted(vec![FencingToken(fence)])), Vec::new()));
            }
            let (mut states, mut wake) = (Vec::new(), Vec::new());
            for request in requests {
                let mut state = LockState::look(tx, &request.key, host)?;
                if state.lease_of(&request.token).is_none() {
                    if let Some(found) = state.other_kind(request.mode)? {
                        return Ok((Err(StoreError::OtherMode { key: request.key.clone(), found }), wake));
                    }
                    // Those in line go first.
                    wake.extend(state.hand_over(None)?);
                    if !state.has_room(request.mode, None)? {
                        return Ok((Ok(AcquireOutcome::Busy(state.busy(None)?)), wake));
                    }
                }
                states.push(state);
            }
            let mut fences = Vec::new();
            for (state, request) in states.iter_mut().zip(requests) {
                fences.push(state.take(request)?);
                wake.extend(queue::first_alive(tx, &request.key, host)?);
            }
            Ok((Ok(AcquireOutcome::granted(fences)), wake))
        })?;
        self.asked = true;
        self.wake_after(&answer, wake);
        answer
    }

    fn enqueue(&mut self, request: &Request, patience: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let bell = match self.bell.take() {
            Some(bell) => bell,
            None => self.database.hang_bell()?,
        };
        let (ticket, mut place) = (self.ticket, None);
        let (mut watched, mut ask_at) = (Awaited::default(), Deadline::after(INTERVAL));
        let asked = self.database.transact(patience, |tx, host| {
            let mut state = LockState::look(tx, &request.key, host)?;
            if state.lease_of(&request.token).is_none() {
                if let Some(found) = state.other_kind(request.mode)? {
                    let key = request.key.clone();
                    return Ok((Err(StoreError::OtherMode { key, found }), Vec::new()));
                }
                let mine = queue::join(tx, request, &bell, ticket, host)?;
                place = Some(mine);
                let mut wake = state.hand_over(place)?;
                if !state.has_room(request.mode, place)? {
                    match queue::before(tx, &request.key, mine, host)? {
                        Some(ahead) => watched.ahead = ahead,
                        None => {
                            ask_at = state.until().map_or(ask_at, |until| ask_at.min(until));
                            watched.holders = state.processes();
                        }
                    }
                    wake.retain(|woken| woken.ticket != mine);
                    return Ok((Ok(AcquireOutcome::Busy(state.busy(place)?)), wake));
                }
                queue::leave(tx, &request.key, &request.token)?;
            }
            let fence = state.take(request)?;
            Ok((Ok(AcquireOutcome::granted(vec![fence])), state.hand_over(None)?))
        });
        self.has_waited = true;
        // Somebody took us for dead, or our grant ran out: the place gets a new one at once. Not before, as most
        // who have lost it have been served.
        if matches!(asked, Ok((Ok(AcquireOutcome::Busy(_)), _))) && !bell.hangs() {
            ask_at = BootTime::now();
        } else {
            self.bell = Some(bell);
        }
        let (answer, wake) = asked?;
        self.watched = watched;
        self.ticket = place.or(ticket);
        self.ask_at = ask_at;
        self.asked = true;
        self.wake_after(&answer, wake);
        answer
    }

    fn wait(&mut self, patience: &Timeout) -> Result<bool, StoreError> {
        match &self.bell {
            Some(bell) => bell.wait(&self.watched, self.ask_at, patience),
            None => Ok(true),
        }
    }

    fn on_idle(&mut self) {
        if std::mem::take(&mut self.is_granted) {
            self.stand_no_more();
            let next = std::mem::take(&mut self.next);
            self.ring(next);
            if fastrand::u8(..) < FORGETFUL {
                // Another one does it when this one cannot.
                let _ = self.database.transact(&Timeout::of(FORGETTING), holders::forget);
            }
        }
        // Nobody stands in line behind a lock that was free, most of the time.
        let likely = if self.has_waited { &holders::AHEAD[..] } else { &holders::AHEAD[..1] };
        self.database.prepare(likely);
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let (renewal, wake) = self.database.transact(patience, |tx, host| {
            let renewal = LockState::look(tx, &request.key, host)?.renew(request, fence)?;
            let is_held = matches!(renewal, Renewal::Extended | Renewal::Healed);
            let next = if is_held { queue::first_alive(tx, &request.key, host)? } else { None };
            Ok((renewal, next.into_iter().collect()))
        })?;
        self.asked = true;
        self.ring(wake);
        Ok(renewal)
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Vec<bool>, StoreError> {
        let waited = self.has_waited;
        let (released, wake) = self.database.transact(patience, |tx, host| {
            let (mut released, mut wake) = (Vec::new(), Vec::new());
            for key in keys {
                // Who stood in line is likely to leave others behind.
                if !waited && free_if_alone(tx, key, token, host)? {
                    released.push(true);
                } else {
                    let (held, woken) = LockState::look(tx, key, host)?.give_back(token, false)?;
                    released.push(held);
                    wake.extend(woken);
                }
            }
            Ok((released, wake))
        })?;
        self.ring(wake);
        Ok(released)
    }

    fn cancel(&mut self, requests: &[Request], patience: &Timeout) -> Result<(), StoreError> {
        if !self.asked {
            return Ok(());
        }
        let wake = self.database.transact(patience, |tx, host| {
            let mut wake = Vec::new();
            for request in requests {
                wake.extend(LockState::look(tx, &request.key, host)?.give_back(&request.token, true)?.1);
            }
            Ok(wake)
        })?;
        self.stand_no_more();
        self.is_granted = false;
        self.ring(wake);
        Ok(())
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Option<Duration>, StoreError> {
        self.database.transact(patience, |tx, host| {
            let state = LockState::look(tx, key, host)?;
            let mine = state.lease_of(token).filter(|lease| !lease.broken);
            Ok(mine.map(|lease| lease.until.left()))
        })
    }

    fn status(&mut self, keys: &[Key], patience: &Timeout) -> Result<Vec<LockStatus>, StoreError> {
        self.survey(keys, patience)?.complete()
    }
}

impl StoreAdmin for Local {
    fn survey(&mut self, keys: &[Key], patience: &Timeout) -> Result<Survey, StoreError> {
        self.database.transact(patience, |tx, host| {
            let known = if keys.is_empty() { known_keys(tx)? } else { keys.to_vec() };
            let mut locks = Vec::new();
            for key in known {
                let state = LockState::look(tx, &key, host)?;
                let holders = state.several.iter().chain(state.exclusive()).map(HolderRow::holding).collect();
                let waiters = queue::alive(tx, &key, host)?;
                let kind = state.held.or(waiters.first().map(|first| first.kind)).unwrap_or_default();
                let waiters =
                    waiters.into_iter().map(|place| Waiter { mode: place.kind, metadata: place.metadata });
                let waiters = waiters.collect();
                locks.push(LockStatus { mode: kind, holders, waiters, key });
            }
            Ok(Survey::of_all(locks))
        })
    }

    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        patience: &Timeout,
    ) -> Result<Broken, StoreError> {
        let (broken, wake) =
            self.database.transact(patience, |tx, host| LockState::look(tx, key, host)?.break_from(token))?;
        self.ring(wake);
        Ok(broken)
    }
}

impl Local {
    fn ring(&self, places: Vec<QueueEntry>) {
        if let Some(file) = self.database.path() {
            ring(file, places);
        }
    }

    /// The place in the queue is served, or given up.
    fn stand_no_more(&mut self) {
        (self.bell, self.ticket, self.watched) = (None, None, Awaited::default());
    }

    /// Tells the others what an answer to us means for them: after a grant later, when nothing is urgent.
    fn wake_after(&mut self, answer: &Result<AcquireOutcome, StoreError>, wake: Vec<QueueEntry>) {
        match answer {
            Ok(AcquireOutcome::Granted(_)) => {
                self.is_granted = true;
                self.next.extend(wake);
            }
            _ => self.ring(wake),
        }
    }
}
