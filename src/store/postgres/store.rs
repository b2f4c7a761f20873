//! The store: what each call of the contract is in PostgreSQL.

use std::time::Duration;

use uuid::Uuid;

use super::acquire::TakenLease;
use super::answer::{LeaseRow, Seen, fence, number};
use super::database::{Commit, PostgresDatabase};
use super::error::TAKEN_BACK;
use super::message::Statement;
use super::statements::{KeyStatements, forget, owner_hex, record, survey};
use super::url::PostgresAddress;
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, Capabilities, FencingToken, Holder, Key, Mode, OneOutcome, OwnerToken, Permits,
    ReleaseOutcome, Renewal, Request, Result, RunRecord, Store, StoreError, Timeout, one_after_the_other,
};

/// The abilities of a PostgreSQL database.
pub const CAPABILITIES: Capabilities = Capabilities {
    history: Ok(20),
    replicas: Err("PostgreSQL itself waits for its standbys: set synchronous_standby_names there"),
    ..Capabilities::ALL
};

/// Out of 256 grants, this many also forget what nobody has used for long.
const CLEANUPS: u8 = 2;
const CLEANUP_TIMEOUT: Duration = Duration::from_millis(500);

/// A [`Store`] in a database.
pub struct Postgres {
    pub(super) database: PostgresDatabase,
    pub(super) channel: String,
    /// In a queue.
    pub(super) is_waiting: bool,
    /// A notification has arrived since.
    pub(super) is_told: bool,
    /// Was in a queue: others may be behind.
    pub(super) has_waited: bool,
    pub(super) ask_at: Deadline,
    pub(super) is_granted: bool,
    /// This process asked for locks: otherwise one that died did.
    pub(super) has_requested: bool,
}

impl Postgres {
    pub fn new(address: PostgresAddress) -> Postgres {
        Postgres {
            database: PostgresDatabase::new(address),
            channel: format!("redlock_{}", Uuid::new_v4().simple()),
            is_waiting: false,
            is_told: false,
            has_waited: false,
            ask_at: BootTime::now(),
            is_granted: false,
            has_requested: false,
        }
    }

    fn granted(&mut self, leases: Vec<TakenLease>) -> AcquireOutcome {
        (self.is_waiting, self.is_granted) = (false, true);
        let (fences, permits): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
        AcquireOutcome::granted_permits(fences, permits)
    }

    /// The lease of this token, or the one that decides.
    fn holder(&mut self, request: &Request, timeout: &Timeout) -> Result<Option<Holder>> {
        let rows = self.database.transact(&survey(std::slice::from_ref(&request.key))[..1], timeout)?;
        let owner = owner_hex(&request.token);
        let mut leases: Vec<LeaseRow> = rows[0].iter().map(LeaseRow::read).collect();
        let mine = leases.iter().position(|lease| lease.owner == owner).unwrap_or(0);
        Ok((mine < leases.len()).then(|| leases.swap_remove(mine).holder))
    }
}

impl Store for Postgres {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        self.has_requested = true;
        if let [request] = requests
            && request.mode == Mode::Exclusive
        {
            if let Some(fence) = self.take(request, timeout)? {
                return Ok(self.granted(vec![(fence, Permits::default())]));
            }
            let seen = self.see(request, timeout)?;
            if let Some(found) = seen.other_mode(request.mode) {
                return Err(StoreError::OtherMode { key: request.key.clone(), found });
            }
            if seen.holder.is_some() && !seen.is_mine {
                return Ok(AcquireOutcome::Busy(seen.busy(request.key.clone()).into()));
            }
        }
        match self.take_all(requests, timeout)? {
            Ok(leases) => Ok(self.granted(leases)),
            Err(busy) => {
                let (seen, request) = (self.see(&requests[busy], timeout)?, &requests[busy]);
                match seen.other_mode(request.mode) {
                    Some(found) => Err(StoreError::OtherMode { key: request.key.clone(), found }),
                    None => Ok(AcquireOutcome::Busy(seen.busy(request.key.clone()).into())),
                }
            }
        }
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome> {
        self.has_requested = true;
        let key = KeyStatements::of(&request.key, &request.token);
        if !self.is_waiting {
            if request.mode == Mode::Exclusive
                && let Some(fence) = self.take(request, timeout)?
            {
                return Ok(self.granted(vec![(fence, Permits::default())]));
            }
        } else if !std::mem::take(&mut self.is_told) {
            // A hundred waiters would wait for one another, if each locked the row of the key to say that it is alive.
            if let Ok(rows) = self.database.attempt(&[key.stay(), key.see()], Commit::Soon, timeout)?
                && rows[0].first().is_some_and(|row| number(row, 0) == Some(1))
            {
                return Ok(self.wait_behind(Seen::read(&rows[1]), request));
            }
        }
        if self.is_waiting && request.mode == Mode::Exclusive {
            // Most of the time the lock is ours when we are woken.
            let confirm = key.confirm(request);
            if let Ok(rows) = self.database.attempt(&[confirm], Commit::Durable, timeout)?
                && let Some(fence) = fence(&rows[0])
            {
                return Ok(self.granted(vec![(fence, Permits::default())]));
            }
        }
        let was_waiting = std::mem::replace(&mut self.is_waiting, true);
        let mut answer = self.queue(request, was_waiting, timeout)?;
        let other_mode = |answer: &Result<_, Seen>| answer.as_ref().err()?.other_mode(request.mode);
        // A grant that was not confirmed keeps its waiter from a new place until it ends. Where that is between two statements,
        // the waiter has neither, and a number of permits that was changed looks like another mode.
        if was_waiting && other_mode(&answer).is_some() {
            answer = self.queue(request, was_waiting, timeout)?;
        }
        if let Some(found) = other_mode(&answer) {
            self.is_waiting = false;
            return Err(StoreError::OtherMode { key: request.key.clone(), found });
        }
        Ok(match answer {
            Ok(lease) => self.granted(vec![lease]),
            Err(seen) => self.wait_behind(seen, request),
        })
    }

    fn acquire_one(
        &mut self,
        requests: &[Request],
        is_queued: bool,
        timeout: &Timeout,
    ) -> Result<OneOutcome> {
        match is_queued {
            true => self.one_of(requests, timeout),
            false => one_after_the_other(self, requests, timeout),
        }
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        self.wait_for_news(timeout)
    }

    fn settle(&mut self) {
        if std::mem::take(&mut self.is_granted) && fastrand::u8(..) < CLEANUPS {
            // Another one does it when this one cannot.
            let _ = self.database.transact(&forget(), &Timeout::of(CLEANUP_TIMEOUT));
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        let key = KeyStatements::of(&request.key, &request.token);
        let [renew, renew_holder] = key.renew(request);
        if request.mode == Mode::Exclusive {
            let rows = self.database.transact(std::slice::from_ref(&renew), timeout)?;
            if !rows[0].is_empty() {
                return Ok(Renewal::Extended);
            }
        }
        let [.., settle] = key.hand_over();
        let rows = self.database.transact(&[key.lock(), renew, renew_holder, settle], timeout)?;
        if !rows[1].is_empty() || rows[2].len() >= request.metadata.weight() as usize {
            return Ok(Renewal::Extended);
        }
        if let Some(FencingToken(fence)) = fence.filter(|_| request.mode != Mode::Exclusive) {
            let [.., settle] = key.hand_over();
            let [make, lock] = key.lock_made();
            let heal = key.heal_holder(request, fence);
            let all: Vec<_> =
                [make, lock].into_iter().chain(heal).chain([key.demand_all(request), settle]).collect();
            match self.database.attempt(&all, Commit::Durable, timeout)? {
                Ok(_) => return Ok(Renewal::Healed),
                Err((_, error)) if &*error.code == TAKEN_BACK => {}
                Err((_, error)) => return Err(self.database.failure(error)),
            }
        } else if let Some(FencingToken(fence)) = fence {
            let rows = self.database.transact(&key.heal(request, fence), timeout)?;
            match (rows[0].is_empty(), rows[1].is_empty()) {
                (false, _) => return Ok(Renewal::Healed),
                (true, false) => return Ok(Renewal::Released),
                (true, true) => {}
            }
        }
        Ok(Renewal::Lost(self.holder(request, timeout)?.map(Box::new)))
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>> {
        if let ([key], false) = (keys, self.has_waited) {
            let free = [KeyStatements::of(key, token).free()];
            let rows = self.database.transact_until(Commit::Soon, &free, timeout)?;
            if !rows[0].is_empty() {
                return Ok(vec![ReleaseOutcome::Released]);
            }
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|index| &keys[*index]);
        let statements = order.iter().map(|index| {
            let key = KeyStatements::of(&keys[*index], token);
            let back = key.keep().into_iter().chain(key.give_back()).chain(key.hand_over());
            [key.lock(), key.mine(false)].into_iter().chain(back).collect::<Vec<_>>()
        });
        let statements: Vec<Vec<Statement>> = statements.collect();
        let of_each = statements.first().map_or(1, Vec::len);
        // The confirmation of the next holder is durable, and all that was committed before it as well.
        let rows = self.database.transact_until(Commit::Soon, &statements.concat(), timeout)?;
        let mut released = vec![ReleaseOutcome::NotHeld; keys.len()];
        for (index, rows) in order.into_iter().zip(rows.chunks(of_each)) {
            released[index] = (!rows[1].is_empty()).into();
        }
        Ok(released)
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        if !self.database.was_asked {
            return Ok(());
        }
        let mut order: Vec<&Request> = requests.iter().collect();
        order.sort_by_key(|request| &request.key);
        let has_requested = self.has_requested;
        let statements = order.into_iter().flat_map(|request| {
            let key = KeyStatements::of(&request.key, &request.token);
            let back = key.give_back().into_iter().chain(key.hand_over());
            let call_off = (!has_requested).then(|| key.call_off());
            key.lock_made().into_iter().chain([key.leave()]).chain(call_off).chain(back).collect::<Vec<_>>()
        });
        let statements: Vec<Statement> = statements.collect();
        self.database.transact(&statements, timeout)?;
        (self.is_waiting, self.is_granted) = (false, false);
        Ok(())
    }

    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>> {
        let rows = self.database.transact(&[KeyStatements::of(key, token).mine(true)], timeout)?;
        Ok(rows[0].first().and_then(|row| number(row, 1)).map(Duration::from_millis))
    }

    fn record(&mut self, key: &Key, run: Option<&RunRecord>, keep: u8, timeout: &Timeout) -> Result<()> {
        // Without a history, what is there stays.
        if keep == 0 {
            return Ok(());
        }
        // The next runs depend on the number of one that begins.
        let commit = if run.is_some_and(RunRecord::is_start) { Commit::Durable } else { Commit::Soon };
        self.database.transact_until(commit, &record(key, run, keep), timeout).map(drop)
    }
}
