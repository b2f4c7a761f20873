//! `--supersede`: of several waiters the last one goes first. A waiter looks now and then who came later, and once more when it
//! has the lock; it goes home for a later one with the same option. That asks nothing of a store but its queue.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Context;
use crate::clock::{BootTime, Deadline};
use crate::lock::{Key, Metadata, StoreAdmin, Timeout};

/// The pause between two looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// Between its looks a waiter has to keep its place, and what it holds.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// A later request with the same option, and the lock that it waits for.
pub struct LaterRequest {
    pub key: Key,
    pub by: Metadata,
}

pub struct Supersession<'a> {
    own: &'a Metadata,
    keys: Vec<Key>,
    store: Box<dyn StoreAdmin>,
    look_at: Deadline,
    interrupt: BorrowedFd<'a>,
}

impl<'a> Supersession<'a> {
    pub fn new(
        own: &'a Metadata,
        keys: Vec<Key>,
        interrupt: BorrowedFd<'a>,
        context: &Context,
    ) -> Supersession<'a> {
        Supersession { own, keys, store: context.open_store(), look_at: BootTime::now(), interrupt }
    }

    /// The same as [`Supersession::later`], if it is time for a look.
    pub fn look_in_time(&mut self) -> Option<LaterRequest> {
        if !self.look_at.has_passed() {
            return None;
        }
        let later = self.later(Deadline::NEVER);
        self.look_at = Deadline::after(INTERVAL);
        later
    }

    /// The last request that came after this one and goes before it. A store that does not answer in time knows none.
    pub fn later(&mut self, until: Deadline) -> Option<LaterRequest> {
        let timeout = Timeout::or_interrupt(LONGEST_LOOK, self.interrupt).before(until);
        let locks = self.store.status(&self.keys, &timeout).unwrap_or_default();
        locks.into_iter().find_map(|lock| {
            let place = lock.waiters.iter().position(|waiter| self.is_own(&waiter.metadata));
            let holds = lock
                .holders
                .iter()
                .any(|holder| holder.metadata.as_ref().is_some_and(|one| self.is_own(one)));
            let behind = place.map(|place| place + 1).or(holds.then_some(0))?;
            let last = lock.waiters.into_iter().skip(behind).rfind(|waiter| waiter.metadata.supersedes)?;
            Some(LaterRequest { key: lock.key, by: last.metadata })
        })
    }

    fn is_own(&self, one: &Metadata) -> bool {
        let who = |one: &Metadata| (one.pid, one.pid_namespace, one.since);
        who(one) == who(self.own) && one.host == self.own.host
    }
}
