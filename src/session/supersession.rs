//! `--supersede`: of several waiters the last one goes first. A waiter looks now and then who came later, and once more when it
//! has the lock; it goes home for a later one with the same option. `--replace` also tells those who hold the lock to stop.
//! That asks nothing of a store but its queue, and that it tells holders.

use std::os::fd::BorrowedFd;
use std::slice::from_ref;
use std::time::Duration;

use super::Context;
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    BreakScope, Breaker, Broken, Holder, Key, Metadata, Result, StoreAdmin, StoreError, Timeout,
};
use crate::user::UserAtHost;

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
    /// The locks whose holders were told to stop; `None` if they are to stay.
    replaced: Option<Vec<Key>>,
}

impl<'a> Supersession<'a> {
    pub fn new(
        own: &'a Metadata,
        keys: Vec<Key>,
        replaces: bool,
        interrupt: BorrowedFd<'a>,
        context: &Context,
    ) -> Supersession<'a> {
        let (store, replaced) = (context.open_store(), replaces.then(Vec::new));
        Supersession { own, keys, store, look_at: BootTime::now(), interrupt, replaced }
    }

    /// Tells the holders of a lock to stop, once for each lock: a waiter that was ahead, and gets it then, stays. So does a
    /// person who reserved the lock, a min-hold, and another program. Returns the holders that were told.
    ///
    /// Fails if the store refuses it. A store that does not answer in time is asked again.
    pub fn replace(&mut self, key: &Key) -> Result<Vec<Holder>> {
        match &self.replaced {
            Some(replaced) if !replaced.contains(key) => {}
            _ => return Ok(Vec::new()),
        }
        let mut told = Vec::new();
        match self.tell_holders(key, &mut told) {
            Ok(true) => self.replaced.iter_mut().for_each(|replaced| replaced.push(key.clone())),
            // The caller takes the signal, or the reason of an abort.
            Err(error) if !error.is_unknown() && error != StoreError::Interrupted => return Err(error),
            Ok(false) | Err(_) => {}
        }
        Ok(told)
    }

    /// False if there was nobody to be told.
    fn tell_holders(&mut self, key: &Key, told: &mut Vec<Holder>) -> Result<bool> {
        let timeout = Timeout::or_interrupt(LONGEST_LOOK, self.interrupt);
        let UserAtHost { user, host } = UserAtHost::own();
        let by = Breaker::new(&user, &host, Some("a later run replaces it (--replace)"));
        let locks = self.store.status(from_ref(key), &timeout)?;
        let holders: Vec<Holder> = locks.into_iter().flat_map(|lock| lock.holders).collect();
        let is_held = !holders.is_empty();
        for holder in holders {
            let is_reserved = holder.metadata.as_ref().is_none_or(|one| one.reserved_until > 0);
            let Some(fence) = holder.fence.filter(|_| !is_reserved && !holder.is_kept) else { continue };
            if let Broken::Told(holder) =
                self.store.break_lock(key, &BreakScope::Grant(fence), &by, &timeout)?
            {
                told.push(holder);
            }
        }
        Ok(is_held)
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
