//! One lock of several: a request stands in all of their queues until one of them is its own. One transaction looks at all.

use super::answer::{Seen, fence, number};
use super::database::Commit;
use super::message::{Statement, TableRow};
use super::statements::KeyStatements;
use super::store::Postgres;
use crate::clock::Deadline;
use crate::lock::{Key, OneOutcome, Request, Result, StoreError, Timeout};

/// The statements of [`KeyStatements::queue_for_one`], and the one of them that confirms.
const OF_EACH: usize = 6;
const CONFIRM: usize = 3;

impl Postgres {
    pub(super) fn one_of(&mut self, requests: &[Request], timeout: &Timeout) -> Result<OneOutcome> {
        self.has_requested = true;
        let see = requests.iter().map(|one| KeyStatements::of(&one.key, &one.token).see());
        if self.is_waiting && !std::mem::take(&mut self.is_told) {
            // As in `enqueue`: this waits for no other transaction.
            let stays = requests.iter().map(|one| KeyStatements::of(&one.key, &one.token).stay());
            let stays: Vec<Statement> = stays.chain(see.clone()).collect();
            let rows = self.database.attempt(&stays, Commit::Soon, timeout)?.unwrap_or_default();
            let is_behind = |rows: &Vec<TableRow>| rows.first().is_some_and(|row| number(row, 0) == Some(1));
            if rows.len() == stays.len() && rows[..requests.len()].iter().all(is_behind) {
                return self.wait_behind_all(requests, &rows[requests.len()..]);
            }
        }
        // In the same order everywhere, so two of these cannot deadlock.
        let mut keys: Vec<&Key> = requests.iter().map(|request| &request.key).collect();
        keys.sort();
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|place| &requests[*place].key);
        let channel = self.channel();
        let of = |place: &usize| KeyStatements::of(&requests[*place].key, &requests[*place].token);
        let rows_locked = order.iter().flat_map(|place| of(place).lock_made());
        let asked =
            order.iter().flat_map(|place| of(place).queue_for_one(&requests[*place], &channel, &keys));
        let settled = order.iter().map(|place| of(place).settle());
        let listen = self.listen();
        let listens = listen.is_some();
        let first = usize::from(listens) + 2 * requests.len();
        let statements: Vec<Statement> =
            listen.into_iter().chain(rows_locked).chain(asked).chain(settled).chain(see).collect();
        (self.is_waiting, self.has_waited) = (true, true);
        let rows = self.database.transact(&statements, timeout)?;
        self.note_listening(listens);
        let confirmed = |(rows, place): (&[Vec<TableRow>], &usize)| Some((*place, fence(&rows[CONFIRM])?));
        let own = rows[first..].chunks(OF_EACH).zip(&order).find_map(confirmed);
        if let Some((place, fence)) = own {
            (self.is_waiting, self.is_granted) = (false, true);
            return Ok(OneOutcome::granted(place, fence));
        }
        self.wait_behind_all(requests, &rows[rows.len() - requests.len()..])
    }

    /// Decides when to ask again, from what was seen of each lock.
    fn wait_behind_all(&mut self, requests: &[Request], seen: &[Vec<TableRow>]) -> Result<OneOutcome> {
        let (mut each, mut ask_at) = (Vec::new(), Deadline::NEVER);
        for (request, rows) in requests.iter().zip(seen) {
            let seen = Seen::read(rows);
            if let Some(found) = seen.other_mode(request.mode) {
                self.is_waiting = false;
                return Err(StoreError::OtherMode { key: request.key.clone(), found });
            }
            ask_at = ask_at.min(Deadline::after(self.pause_behind(&seen)));
            each.push(seen.busy(request.key.clone()));
        }
        self.ask_at = ask_at;
        Ok(OneOutcome::busy(each, requests))
    }
}
