//! The store: what each call of the contract is in Memcached.

use std::collections::HashMap;
use std::slice::from_ref;
use std::time::Duration;

use super::connection::MemcachedConnection;
use super::item::{Item, LONGEST_TTL, name, seconds};
use super::reply::{MemcachedReply, StoredItem, foreign};
use super::url::MemcachedAddress;
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, BreakScope, Breaker, Broken, Busy, Capabilities, FencingToken, Key, LockStatus, Mode,
    OwnerToken, ReleaseOutcome, Renewal, Request, Result, Store, StoreAdmin, StoreError, Survey, Timeout,
};
use crate::store::call_error::CallError;
use crate::store::net::{self, RequestError};
use crate::store::polling::PollSchedule;

const LISTING: &str = "Memcached cannot list its locks; name them: redlock status KEY";

/// An item is one holder, and its time has whole seconds.
pub const CAPABILITIES: Capabilities = Capabilities {
    shared: Err("Memcached holds exclusive locks only; use another store for shared ones"),
    semaphore: Err("Memcached holds exclusive locks only; use another store for permits"),
    queue: false,
    counted_permits: Err("Memcached has no permits"),
    priorities: Err("the waiters of Memcached form no queue"),
    one_of: Err("the waiters of Memcached form no queue; leave out --wait"),
    shortest_ttl: Duration::from_secs(3),
    longest_ttl: Some(LONGEST_TTL),
    ttl_resolution: Duration::from_secs(1),
    listing: Err(LISTING),
    replicas: Err("Memcached has no replicas"),
    history: Err(
        "Memcached keeps no history, as it may evict it; --log-file and --metrics-file tell of the runs of a host",
    ),
    ..Capabilities::ALL
};

/// The store at one address. It connects with the first call.
pub struct Memcached {
    name: String,
    connection: MemcachedConnection,
    /// The fencing tokens of the holders before us, where we saw them.
    seen: HashMap<Key, u64>,
    polls: PollSchedule,
    ask_at: Deadline,
}

/// The server's part of a lock.
struct ItemLook {
    item: Item,
    cas: u64,
    /// In seconds.
    left: Option<u64>,
}

/// Which item may be replaced.
#[derive(Clone, Copy)]
enum Expected {
    Nothing,
    Cas(u64),
}

impl Memcached {
    pub fn new(address: &MemcachedAddress) -> Memcached {
        Memcached {
            name: address.to_string(),
            connection: MemcachedConnection::new(address.server.clone()),
            seen: HashMap::new(),
            polls: PollSchedule::default(),
            ask_at: BootTime::now(),
        }
    }

    fn call(&mut self, request: &[u8], timeout: &Timeout) -> Result<MemcachedReply> {
        self.connection.call(request, timeout).map_err(|error| error.of(&self.name))
    }

    fn makes_no_sense(&self) -> StoreError {
        foreign().of(&self.name)
    }

    fn look(&mut self, key: &Key, timeout: &Timeout) -> Result<Option<ItemLook>> {
        match self.call(format!("mg {} v c t\r\n", name(key)).as_bytes(), timeout)? {
            MemcachedReply::Missing => Ok(None),
            MemcachedReply::Value(StoredItem { value, cas, left }) => match Item::parse(&value) {
                Some(item) => Ok(Some(ItemLook { item, cas, left })),
                None => Err(StoreError::NotALock {
                    store: self.name.clone(),
                    key: key.clone(),
                    found: "what another program stored".to_owned(),
                }),
            },
            _ => Err(self.makes_no_sense()),
        }
    }

    /// Stores an item for so many seconds; `false` if what it would replace is not what was expected.
    fn set(
        &mut self,
        key: &Key,
        item: &Item,
        seconds: u64,
        expected: Expected,
        timeout: &Timeout,
    ) -> Result<bool> {
        let value = item.to_bytes();
        let expected = match expected {
            Expected::Nothing => "ME".to_owned(),
            Expected::Cas(cas) => format!("C{cas}"),
        };
        let head = format!("ms {} {} T{seconds} c {expected}\r\n", name(key), value.len());
        match self.call(&[head.as_bytes(), &value, b"\r\n"].concat(), timeout)? {
            // Without numbers a comparison finds everything alike.
            MemcachedReply::Done { cas: 0 } => {
                self.call(format!("md {}\r\n", name(key)).as_bytes(), timeout)?;
                let why = "it has no compare-and-swap; start Memcached without -C".to_owned();
                Err(StoreError::Unusable { store: self.name.clone(), why })
            }
            MemcachedReply::Done { .. } => Ok(true),
            MemcachedReply::NotDone => Ok(false),
            _ => Err(self.makes_no_sense()),
        }
    }

    /// Deletes what was seen; `false` if it was changed since.
    fn delete(&mut self, key: &Key, cas: u64, timeout: &Timeout) -> Result<bool> {
        match self.call(format!("md {} C{cas}\r\n", name(key)).as_bytes(), timeout)? {
            MemcachedReply::Done { .. } => Ok(true),
            MemcachedReply::NotDone => Ok(false),
            _ => Err(self.makes_no_sense()),
        }
    }

    /// Takes one lock. A caller that asks again after a lost answer finds the item, and extends it.
    fn take(&mut self, request: &Request, timeout: &Timeout) -> Result<Result<FencingToken, Busy>> {
        let (key, ttl) = (&request.key, seconds(request.ttl.duration()));
        loop {
            let earlier = self.seen.get(key).copied().unwrap_or_default();
            let fence = FencingToken::floor().max(FencingToken(earlier.saturating_add(1)));
            let is_new = self.set(key, &Item::of(request, fence), ttl, Expected::Nothing, timeout)?;
            // It may have ended in this moment.
            let Some(ItemLook { mut item, cas, left }) = self.look(key, timeout)? else { continue };
            if !item.is_held_by(&request.token) {
                self.seen.insert(key.clone(), item.fence);
                let (holder, key) = (Some(item.holder(left)), key.clone());
                return Ok(Err(Busy { key, holder, others: 0, ahead: None }));
            }
            // The clock is read again, as others may have held the lock between the first look at it and the grant.
            let fence = if is_new { fence.max(FencingToken::floor()) } else { FencingToken(item.fence) };
            item.fence = fence.0;
            if self.set(key, &item, ttl, Expected::Cas(cas), timeout)? {
                return Ok(Ok(fence));
            }
        }
    }

    /// Frees one lock, or leaves it to its min-hold where that counts.
    fn free(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        min_hold_counts: bool,
        timeout: &Timeout,
    ) -> Result<ReleaseOutcome> {
        loop {
            let look = self.look(key, timeout)?.filter(|look| look.item.is_held_by(token));
            let Some(ItemLook { item, cas, .. }) = look else { return Ok(ReleaseOutcome::NotHeld) };
            let left = if min_hold_counts { item.min_hold_left() } else { Duration::ZERO };
            let is_done = match left.is_zero() {
                true => self.delete(key, cas, timeout)?,
                false => self.set(key, &item.kept(), seconds(left), Expected::Cas(cas), timeout)?,
            };
            if is_done {
                return Ok(ReleaseOutcome::Released);
            }
        }
    }
}

impl Store for Memcached {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        let mut fences = Vec::with_capacity(requests.len());
        for request in requests {
            match self.take(request, timeout) {
                Ok(Ok(fence)) => fences.push(fence),
                refused => {
                    // All of them or none.
                    let taken = requests[..fences.len()].iter();
                    let given_back: Result<Vec<_>> =
                        taken.map(|taken| self.free(&taken.key, &taken.token, false, timeout)).collect();
                    return match refused? {
                        Err(busy) => given_back.map(|_| AcquireOutcome::Busy(Box::new(busy))),
                        Ok(_) => Err(self.makes_no_sense()),
                    };
                }
            }
        }
        Ok(AcquireOutcome::granted(fences))
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome> {
        let answer = self.acquire(from_ref(request), timeout)?;
        match answer {
            AcquireOutcome::Granted(_) => self.polls = PollSchedule::default(),
            AcquireOutcome::Busy(_) => self.ask_at = Deadline::after(self.polls.pause(Duration::MAX)),
        }
        Ok(answer)
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        match net::pause(self.ask_at.left(), timeout) {
            Ok(()) => Ok(true),
            Err(RequestError::TimedOut) => Ok(false),
            Err(error) => Err(CallError::from(error).of(&self.name)),
        }
    }

    /// Looks first and then changes what it saw: a look now and then keeps Memcached from evicting the item.
    fn renew(
        &mut self,
        request: &Request,
        _fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        let key = &request.key;
        loop {
            // The store does not know who else was granted it since.
            let Some(ItemLook { item, cas, left }) = self.look(key, timeout)? else {
                return Ok(Renewal::Lost(None));
            };
            if item.is_kept && item.is_of(&request.token) {
                return Ok(Renewal::Released);
            }
            if !item.is_held_by(&request.token) || item.is_broken() {
                return Ok(Renewal::Lost(Some(item.holder(left).into())));
            }
            let wanted = seconds(request.ttl.duration()).max(left.unwrap_or_default());
            if self.set(key, &item, wanted, Expected::Cas(cas), timeout)? {
                return Ok(Renewal::Extended);
            }
        }
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>> {
        keys.iter().map(|key| self.free(key, token, true, timeout)).collect()
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        self.polls = PollSchedule::default();
        if !self.connection.has_asked {
            return Ok(());
        }
        requests.iter().try_for_each(|request| {
            // An item that is not a lock was not granted.
            match self.free(&request.key, &request.token, false, timeout) {
                Err(StoreError::NotALock { .. }) => Ok(()),
                freed => freed.map(drop),
            }
        })
    }

    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>> {
        let look = self.look(key, timeout)?;
        let held = look.filter(|look| look.item.is_held_by(token) && !look.item.is_broken());
        Ok(held.map(|look| look.item.holder(look.left).left.unwrap_or(Duration::MAX)))
    }
}

impl StoreAdmin for Memcached {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
        if keys.is_empty() {
            return Err(StoreError::Unusable { store: self.name.clone(), why: LISTING.to_owned() });
        }
        let mut survey = Survey::default();
        for key in keys {
            match self.look(key, timeout) {
                Ok(look) => {
                    let holders = look.iter().map(|look| look.item.holder(look.left)).collect();
                    let (key, mode) = (key.clone(), Mode::Exclusive);
                    survey.locks.push(LockStatus { key, mode, holders, waiters: Vec::new() });
                }
                Err(error @ StoreError::NotALock { .. }) => survey.hidden.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(survey)
    }

    /// A break notifies a holder once. Then it had the time to stop, and the lock is freed.
    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken> {
        loop {
            let Some(ItemLook { item, cas, left }) = self.look(key, timeout)? else {
                return Ok(Broken::Free);
            };
            let holder = item.holder(left);
            let is_told = !item.is_kept && !item.is_broken();
            let is_meant = match scope {
                BreakScope::All => true,
                BreakScope::Owner(token) => item.is_held_by(token),
                BreakScope::Grant(fence) => is_told && holder.fence == Some(*fence),
            };
            if !is_meant {
                return Ok(Broken::Other(holder));
            }
            let is_done = match is_told {
                // Zero would be for ever.
                true => {
                    let left = left.unwrap_or_default().max(1);
                    self.set(key, &item.broken_by(by), left, Expected::Cas(cas), timeout)?
                }
                false => self.delete(key, cas, timeout)?,
            };
            match is_done {
                true if is_told => return Ok(Broken::Told(holder)),
                true => return Ok(Broken::Freed(holder)),
                false => {}
            }
        }
    }
}
