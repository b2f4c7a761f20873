//! The state of a lock in its store: its holders, its waiters, and what `break` did to it.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Breaker, FencingToken, Key, Metadata, Mode, Permits, Result, StoreError};

/// A holder renews after a third of its TTL. One that is later than this part of it may be gone.
const LATE: u32 = 2;

/// A holder of a lock, as the store knows it.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    /// `None` for a holder that another program made, which left nothing but its token.
    pub metadata: Option<Metadata>,
    /// The fencing token of its grant; `None` for a holder that another program made.
    pub fence: Option<FencingToken>,
    /// When the lock was granted, in milliseconds since the Unix epoch.
    pub since: Option<u64>,
    /// The rest of the lease; `None` when it never expires, or others cannot see it.
    pub left: Option<Duration>,
    /// The lease expires, and others cannot see when.
    pub hides_left: bool,
    /// It has released the lock, which its min-hold keeps for what is left.
    pub is_kept: bool,
    /// The lock was broken: its holder is to stop, and then the next one gets the lock.
    pub broken: Option<Breaker>,
}

impl Holder {
    /// Its permits, where the store gives numbers.
    pub fn permits(&self) -> Option<&Permits> {
        self.metadata.as_ref().map(|metadata| &metadata.permits).filter(|permits| !permits.is_empty())
    }

    /// True if it should have renewed its lease by now.
    pub fn is_late(&self) -> bool {
        let is_renewed = |metadata: &&Metadata| !metadata.by_hand && !self.is_kept;
        let ttl = self.metadata.as_ref().filter(is_renewed).and_then(Metadata::ttl);
        self.left.zip(ttl).is_some_and(|(left, ttl)| ttl.saturating_sub(left) > ttl / LATE)
    }
}

/// A request in the queue.
#[derive(Debug)]
pub struct Waiter {
    pub mode: Mode,
    pub metadata: Metadata,
}

#[derive(Debug)]
pub struct LockStatus {
    pub key: Key,
    /// The mode in which the key is in use; exclusive when it is not in use.
    pub mode: Mode,
    /// More than one only of a shared lock or a semaphore.
    pub holders: Vec<Holder>,
    /// In the order in which they are served.
    pub waiters: Vec<Waiter>,
}

impl LockStatus {
    /// Somebody holds the lock or waits for it.
    pub fn is_in_use(&self) -> bool {
        !self.holders.is_empty() || !self.waiters.is_empty()
    }

    /// The number of permits that are held.
    pub fn held_permits(&self) -> u32 {
        let weight = |holder: &Holder| holder.metadata.as_ref().map_or(1, Metadata::weight);
        self.holders.iter().map(weight).fold(0, u32::saturating_add)
    }
}

/// The locks that can be seen.
#[derive(Debug, Default)]
pub struct Survey {
    pub locks: Vec<LockStatus>,
    /// The reasons why there may be more locks than these.
    pub hidden: Vec<StoreError>,
}

impl Survey {
    pub fn of_all(locks: Vec<LockStatus>) -> Survey {
        Survey { locks, hidden: Vec::new() }
    }

    /// The locks, if nothing is hidden.
    pub fn complete(mut self) -> Result<Vec<LockStatus>> {
        if self.hidden.is_empty() { Ok(self.locks) } else { Err(self.hidden.swap_remove(0)) }
    }
}

#[derive(Debug)]
pub enum Broken {
    Free,
    /// The holder learns of it at its next renewal. The lock is free when the holder has stopped its job, or when its
    /// lease ends.
    Told(Holder),
    Freed(Holder),
    /// The lock is held with another owner token than the one to be broken.
    Other(Holder),
}

/// The result of changing the number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// Nobody holds the lock or waits for it: the next request says how many permits there are.
    NotInUse,
    From(NonZeroU32),
}
