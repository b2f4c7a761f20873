//! The store: what each call of the contract is in the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::database::Database;
use super::history;
use super::holders::{self, free_if_alone, hold_if_free};
use super::lock_state::LockState;
use super::queue::{self, INTERVAL, QueueEntry};
use super::wakeup::{Awaited, WakeFifo};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, Capabilities, FencingToken, Key, Mode, OneOutcome, OwnerToken, ReleaseOutcome, Renewal,
    Request, Result, RunRecord, Store, StoreError, Timeout,
};

/// The capabilities of a file on this host.
pub const CAPABILITIES: Capabilities = Capabilities {
    replicas: Err("local: has no replicas; the file is on this host only"),
    history: Ok(HISTORY),
    ..Capabilities::ALL
};

/// The number of runs of a key that are kept: in a file they cost nobody else anything.
const HISTORY: u8 = 20;

/// Out of 256 grants, this many also delete what nobody has used for long.
const CLEANUPS: u8 = 4;
/// For one of these.
const CLEANUP_TIMEOUT: Duration = Duration::from_millis(50);
/// Before a run is added to the history: a waiter that was handed the lock takes it first, and finds the file free.
const HEAD_START: Duration = Duration::from_millis(1);

/// A [`Store`] in a file of this host.
pub struct Local {
    pub(super) database: Database,
    /// The FIFO that wakes this process in the queue.
    pub(super) fifo: Option<WakeFifo>,
    /// Our place in the queue: kept when a grant runs out before it is confirmed.
    ticket: Option<i64>,
    /// The same in the queues of several, of which one is enough.
    pub(super) tickets: BTreeMap<Key, i64>,
    /// This process was in a queue.
    pub(super) has_waited: bool,
    pub(super) awaited: Awaited,
    pub(super) ask_at: Deadline,
    /// Waiters that are to be woken when there is time: they are the first in line now.
    next: Vec<QueueEntry>,
    /// A transaction of ours was carried out: there may be something to give back.
    pub(super) asked: bool,
    /// The last request was granted, and there was no time since: see [`Store::settle`].
    is_granted: bool,
    /// A waiter was handed the lock just now.
    has_handed_over: bool,
}

impl Local {
    /// A store in the file at `path`, opened when it is asked for something.
    ///
    /// With the death of all of the processes `holders` its locks are free; without any, with the end of their leases.
    pub fn new(path: Option<PathBuf>, holders: Vec<u32>) -> Local {
        Local {
            database: Database::new(path, holders),
            fifo: None,
            ticket: None,
            tickets: BTreeMap::new(),
            has_waited: false,
            awaited: Awaited::default(),
            ask_at: BootTime::now(),
            next: Vec::new(),
            asked: false,
            is_granted: false,
            has_handed_over: false,
        }
    }
}

impl Store for Local {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        let (answer, wake) = self.database.transact(timeout, |tx, host| {
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
                    if let Some(found) = state.other_mode(request.mode)? {
                        return Ok((Err(StoreError::OtherMode { key: request.key.clone(), found }), wake));
                    }
                    // Waiters go first.
                    wake.extend(state.hand_over(None)?);
                    if !state.has_room(request, None)? {
                        return Ok((Ok(AcquireOutcome::Busy(state.busy(None)?.into())), wake));
                    }
                }
                states.push(state);
            }
            let mut granted = Vec::new();
            for (state, request) in states.iter_mut().zip(requests) {
                granted.push(state.acquire(request)?);
                wake.extend(queue::first_alive(tx, &request.key, host)?);
            }
            let (fences, permits): (Vec<_>, Vec<_>) = granted.into_iter().unzip();
            Ok((Ok(AcquireOutcome::granted_permits(fences, permits)), wake))
        })?;
        self.asked = true;
        self.wake_after(matches!(answer, Ok(AcquireOutcome::Granted(_))), wake);
        answer
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome> {
        let fifo = match self.fifo.take() {
            Some(fifo) => fifo,
            None => self.database.make_fifo()?,
        };
        let (known_ticket, mut ticket) = (self.ticket, None);
        let (mut awaited, mut ask_at) = (Awaited::default(), Deadline::after(INTERVAL));
        let asked = self.database.transact(timeout, |tx, host| {
            let mut state = LockState::look(tx, &request.key, host)?;
            let may_be_resized = known_ticket.is_some() && request.mode.permits().is_some();
            let request = &if may_be_resized { state.resized(request)? } else { request.clone() };
            if state.lease_of(&request.token).is_none() {
                if let Some(found) = state.other_mode(request.mode)? {
                    let key = request.key.clone();
                    return Ok((Err(StoreError::OtherMode { key, found }), Vec::new()));
                }
                let mine = queue::join(tx, request, &fifo, known_ticket, host)?;
                ticket = Some(mine);
                let mut wake = state.hand_over(ticket)?;
                if !state.has_room(request, ticket)? {
                    match queue::before(tx, &request.key, mine, host)? {
                        Some(ahead) => awaited.ahead = ahead.into_iter().collect(),
                        None => {
                            // There will be room then even if nobody gives anything back.
                            ask_at = state.leases.deciding().map_or(ask_at, |lease| ask_at.min(lease.until));
                            awaited.holders = state.leases.processes();
                        }
                    }
                    wake.retain(|woken| woken.ticket != mine);
                    return Ok((Ok(AcquireOutcome::Busy(state.busy(ticket)?.into())), wake));
                }
                queue::leave(tx, &request.key, &request.token)?;
            }
            let (fence, permits) = state.acquire(request)?;
            let granted = AcquireOutcome::granted_permits(vec![fence], vec![permits]);
            Ok((Ok(granted), state.hand_over(None)?))
        });
        self.has_waited = true;
        // Somebody took us for dead, or our grant ran out: the entry gets a new FIFO at once. Only now, as most that have
        // lost it were served.
        if matches!(asked, Ok((Ok(AcquireOutcome::Busy(_)), _))) && !fifo.exists() {
            ask_at = BootTime::now();
        } else {
            self.fifo = Some(fifo);
        }
        let (answer, wake) = asked?;
        self.awaited = awaited;
        self.ticket = ticket.or(known_ticket);
        self.ask_at = ask_at;
        self.asked = true;
        self.wake_after(matches!(answer, Ok(AcquireOutcome::Granted(_))), wake);
        answer
    }

    fn acquire_one(
        &mut self,
        requests: &[Request],
        is_queued: bool,
        timeout: &Timeout,
    ) -> Result<OneOutcome> {
        self.one_of(requests, is_queued, timeout)
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        match &self.fifo {
            Some(fifo) => fifo.wait(&self.awaited, self.ask_at, timeout),
            None => Ok(true),
        }
    }

    fn settle(&mut self) {
        if std::mem::take(&mut self.is_granted) {
            self.leave_queue();
            let next = std::mem::take(&mut self.next);
            self.wake(next);
            if fastrand::u8(..) < CLEANUPS {
                // Another one does it when this one cannot.
                let _ = self.database.transact(&Timeout::of(CLEANUP_TIMEOUT), |tx, host| {
                    holders::forget(tx, host)?;
                    history::forget(tx)
                });
            }
        }
        self.prepare();
    }

    fn prepare(&mut self) {
        // Most of the time nobody waits for a lock that was free.
        let likely =
            if self.has_waited { &holders::COMPILED_AHEAD[..] } else { &holders::COMPILED_AHEAD[..1] };
        self.database.prepare(likely);
        self.database.prepare(&history::COMPILED_AHEAD);
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        let (renewal, wake) = self.database.transact(timeout, |tx, host| {
            let renewal = LockState::look(tx, &request.key, host)?.renew(request, fence)?;
            let is_held = matches!(renewal, Renewal::Extended | Renewal::Healed);
            let next = if is_held { queue::first_alive(tx, &request.key, host)? } else { None };
            Ok((renewal, next.into_iter().collect()))
        })?;
        self.asked = true;
        self.wake(wake);
        Ok(renewal)
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>> {
        let waited = self.has_waited;
        let (released, wake) = self.database.transact(timeout, |tx, host| {
            let (mut released, mut wake) = (Vec::new(), Vec::new());
            for key in keys {
                // A process that waited is likely to have others behind it.
                if !waited && free_if_alone(tx, key, token, host)? {
                    released.push(ReleaseOutcome::Released);
                } else {
                    let (held, woken) = LockState::look(tx, key, host)?.give_back(token, false)?;
                    released.push(held.into());
                    wake.extend(woken);
                }
            }
            Ok((released, wake))
        })?;
        self.has_handed_over = !wake.is_empty();
        self.wake(wake);
        Ok(released)
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        if !self.asked {
            return Ok(());
        }
        let wake = self.database.transact(timeout, |tx, host| {
            let mut wake = Vec::new();
            for request in requests {
                wake.extend(LockState::look(tx, &request.key, host)?.give_back(&request.token, true)?.1);
            }
            Ok(wake)
        })?;
        self.leave_queue();
        self.is_granted = false;
        self.wake(wake);
        Ok(())
    }

    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>> {
        self.database.transact(timeout, |tx, host| {
            let state = LockState::look(tx, key, host)?;
            let mine = state.lease_of(token).filter(|lease| lease.broken.is_none());
            Ok(mine.map(|lease| lease.until.left()))
        })
    }

    fn record(&mut self, key: &Key, run: Option<&RunRecord>, keep: u8, timeout: &Timeout) -> Result<()> {
        // Without a history, what is there stays.
        if keep == 0 {
            return Ok(());
        }
        if std::mem::take(&mut self.has_handed_over) {
            timeout.pause(HEAD_START)?;
        }
        self.database.transact(timeout, |tx, _| history::record(tx, key, run, keep))
    }
}

impl Local {
    pub(super) fn wake(&self, waiters: Vec<QueueEntry>) {
        if let Some(file) = self.database.path() {
            queue::wake_all(file, waiters);
        }
    }

    /// The entry in the queue was served, or given up.
    fn leave_queue(&mut self) {
        (self.fifo, self.ticket, self.awaited) = (None, None, Awaited::default());
        self.tickets.clear();
    }

    /// Wakes the waiters that an answer to us concerns; after a grant later, when there is time.
    pub(super) fn wake_after(&mut self, is_granted: bool, wake: Vec<QueueEntry>) {
        if is_granted {
            self.is_granted = true;
            self.next.extend(wake);
        } else {
            self.wake(wake);
        }
    }
}
