//! One lock of several: a request stands in all of their queues, with one FIFO, until one of them is its own.

use std::collections::BTreeMap;

use rusqlite::Transaction;

use super::host::Host;
use super::lock_state::LockState;
use super::queue::{self, INTERVAL, QueueEntry};
use super::store::Local;
use super::wakeup::{Awaited, WakeFifo};
use crate::clock::{BootTime, Deadline};
use crate::lock::{Key, OneOutcome, Request, Result, StoreError, Timeout};

/// The result of asking for all of the locks.
struct Asked {
    answer: Result<OneOutcome>,
    wake: Vec<QueueEntry>,
    tickets: BTreeMap<Key, i64>,
    awaited: Awaited,
    ask_at: Deadline,
}

impl Local {
    pub(super) fn one_of(
        &mut self,
        requests: &[Request],
        is_queued: bool,
        timeout: &Timeout,
    ) -> Result<OneOutcome> {
        let fifo = match self.fifo.take() {
            _ if !is_queued => None,
            None => Some(self.database.make_fifo()?),
            known => known,
        };
        let known = &self.tickets;
        let asked = self.database.transact(timeout, |tx, host| ask(tx, requests, fifo.as_ref(), known, host));
        self.has_waited |= is_queued;
        let has_place = matches!(&asked, Ok(Asked { answer: Ok(OneOutcome::Busy(_)), .. }));
        // Somebody took us for dead: the entries get a new FIFO at once.
        let is_unknown = has_place && fifo.as_ref().is_some_and(|fifo| !fifo.exists());
        self.fifo = fifo.filter(|_| !is_unknown);
        let Asked { answer, wake, tickets, awaited, ask_at } = asked?;
        self.tickets.extend(tickets);
        self.awaited = awaited;
        self.ask_at = if is_unknown { BootTime::now() } else { ask_at };
        self.asked = true;
        self.wake_after(matches!(answer, Ok(OneOutcome::Granted { .. })), wake);
        answer
    }
}

fn ask(
    tx: &Transaction,
    requests: &[Request],
    fifo: Option<&WakeFifo>,
    known: &BTreeMap<Key, i64>,
    host: &Host,
) -> rusqlite::Result<Asked> {
    let (mut wake, mut tickets) = (Vec::new(), BTreeMap::new());
    let (mut awaited, mut ask_at) = (Awaited::default(), Deadline::after(INTERVAL));
    let mut each = Vec::new();
    let states = requests.iter().map(|request| LockState::look(tx, &request.key, host));
    let mut states = states.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut own = requests.iter().zip(&states).position(|(one, state)| state.lease_of(&one.token).is_some());
    for (place, (request, state)) in requests.iter().zip(&mut states).enumerate() {
        if own.is_some() {
            break;
        }
        if let Some(found) = state.other_mode(request.mode)? {
            let answer = Err(StoreError::OtherMode { key: request.key.clone(), found });
            return Ok(Asked { answer, wake, tickets, awaited, ask_at });
        }
        let ticket = fifo
            .map(|fifo| queue::join(tx, request, fifo, known.get(&request.key).copied(), host))
            .transpose()?;
        tickets.extend(ticket.map(|ticket| (request.key.clone(), ticket)));
        wake.extend(state.hand_over(ticket)?);
        if state.has_room(request, ticket)? {
            own = Some(place);
            break;
        }
        each.push(state.busy(ticket)?);
        let Some(ticket) = ticket else { continue };
        match queue::before(tx, &request.key, ticket, host)? {
            Some(ahead) => awaited.ahead.extend(ahead),
            None => {
                ask_at = state.leases.deciding().map_or(ask_at, |lease| ask_at.min(lease.until));
                awaited.holders.extend(state.leases.processes());
            }
        }
    }
    wake.retain(|woken: &QueueEntry| !tickets.values().any(|ticket| *ticket == woken.ticket));
    let answer = match own {
        Some(place) => {
            let request = &requests[place];
            queue::leave(tx, &request.key, &request.token)?;
            let (fence, _) = states[place].acquire(request)?;
            wake.extend(states[place].hand_over(None)?);
            if fifo.is_some() {
                // One of them may have been handed over at the same time.
                for (other, state) in
                    requests.iter().zip(&mut states).filter(|(one, _)| one.key != request.key)
                {
                    wake.extend(state.give_back(&other.token, true)?.1);
                }
            }
            Ok(OneOutcome::granted(place, fence))
        }
        None => Ok(OneOutcome::busy(each, requests)),
    };
    Ok(Asked { answer, wake, tickets, awaited, ask_at })
}
