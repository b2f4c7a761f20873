//! How a lock is taken: an exclusive one that is free in one statement, all others through the queue of their row.

use super::answer::{Seen, fence, permits};
use super::database::Commit;
use super::error::{ROW_LOCKED, TAKEN_BACK};
use super::message::{Statement, TableRow};
use super::statements::KeyStatements;
use super::store::Postgres;
use crate::lock::{FencingToken, Permits, Priority, Request, Result, StoreError, Timeout};

/// The fencing token of a lease, and its permits.
pub type TakenLease = (FencingToken, Permits);

/// The lease that the statements of [`KeyStatements::lock_made`] and [`KeyStatements::queue`] have confirmed, if any.
fn confirmed(rows: &[Vec<TableRow>]) -> Option<TakenLease> {
    let exclusive = || fence(&rows[5]).map(|fence| (fence, Permits::default()));
    exclusive().or_else(|| Some((fence(&rows[6])?, permits(&rows[6], 1))))
}

impl Postgres {
    pub fn see(&mut self, request: &Request, timeout: &Timeout) -> Result<Seen> {
        let see = KeyStatements::of(&request.key, &request.token).see();
        Ok(Seen::read(&self.database.transact(&[see], timeout)?[0]))
    }

    /// Takes a free exclusive lock in one statement. `None` when it takes a closer look.
    pub fn take(&mut self, request: &Request, timeout: &Timeout) -> Result<Option<FencingToken>> {
        let take = KeyStatements::of(&request.key, &request.token).take(request);
        match self.database.attempt(&[take], Commit::Durable, timeout)? {
            Ok(rows) => Ok(fence(&rows[0])),
            Err((_, error)) if error.is_undone() => Ok(None),
            Err((_, error)) => Err(self.database.failure(error)),
        }
    }

    /// Takes all locks in one transaction, or none. Returns the one that was busy.
    pub fn take_all(
        &mut self,
        requests: &[Request],
        timeout: &Timeout,
    ) -> Result<Result<Vec<TakenLease>, usize>> {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        // In the same order everywhere, so two of these cannot deadlock.
        order.sort_by_key(|index| &requests[*index].key);
        let (mut statements, mut of_each) = (Vec::new(), 0);
        for index in &order {
            let request = &requests[*index];
            let key = KeyStatements::of(&request.key, &request.token);
            statements.extend(key.lock_made());
            statements.extend(key.queue(request, "", Priority::BEHIND_ALL, false));
            statements.push(key.demand());
            of_each = statements.len() / (1 + order.iter().position(|other| other == index).unwrap_or(0));
        }
        loop {
            match self.database.attempt(&statements, Commit::Durable, timeout)? {
                Ok(rows) => {
                    let mut leases = vec![(FencingToken(0), Permits::default()); requests.len()];
                    for (index, rows) in order.iter().zip(rows.chunks(of_each)) {
                        leases[*index] = confirmed(rows).ok_or_else(|| self.senseless())?;
                    }
                    return Ok(Ok(leases));
                }
                Err((failed, error)) if matches!(&*error.code, TAKEN_BACK | ROW_LOCKED) => {
                    return Ok(Err(order[(failed / of_each).min(order.len() - 1)]));
                }
                Err((_, error)) if error.is_undone() && !timeout.until.has_passed() => {}
                Err((_, error)) => return Err(self.database.failure(error)),
            }
        }
    }

    /// Takes a place in the queue, or gives a sign of life there, and takes the lock when it is its turn.
    pub fn queue(
        &mut self,
        request: &Request,
        was_waiting: bool,
        timeout: &Timeout,
    ) -> Result<Result<TakenLease, Seen>> {
        let key = KeyStatements::of(&request.key, &request.token);
        let mut statements: Vec<Statement> = self.listen().into_iter().collect();
        let first = statements.len();
        statements.extend(key.lock_made());
        let head_start = request.metadata.priority.head_start_micros();
        statements.extend(key.queue(request, &self.channel(), head_start, was_waiting));
        statements.push(key.see());
        self.has_waited = true;
        let rows = self.database.transact(&statements, timeout)?;
        self.note_listening(first > 0);
        let rows = &rows[first..];
        Ok(confirmed(rows).ok_or_else(|| Seen::read(&rows[8])))
    }

    fn senseless(&self) -> StoreError {
        let why = "its answer makes no sense".to_owned();
        StoreError::Unreachable { store: self.database.name(), why, transient: false }
    }
}
