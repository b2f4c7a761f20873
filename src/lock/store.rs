//! The contract that every store fulfils.

use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::slice::from_ref;
use std::time::Duration;

use super::{
    BreakScope, Breaker, Broken, Capabilities, FencingToken, History, Holder, Key, LockStatus, OwnerToken,
    Permits, Request, Resized, Result, RunRecord, StoreError, Survey, Timeout,
};
use crate::clock::{BootTime, Deadline};

/// The answer to a request for locks.
#[derive(Debug)]
pub enum AcquireOutcome {
    /// All locks are held for their TTL.
    Granted(Grant),
    /// Nothing was granted, as one of the locks is not free.
    Busy(Box<Busy>),
}

/// Locks that were granted together.
#[derive(Clone, Debug)]
pub struct Grant {
    /// A fencing token for each lock, in the order of the requests.
    pub fences: Vec<FencingToken>,
    /// The permits of each lock, in the same order; none where the store gives no numbers, or for another mode.
    pub permits: Vec<Permits>,
    /// The start of the leases, where the store had made them before the request. Otherwise they count from before the
    /// request was sent.
    pub counted_from: Option<BootTime>,
}

impl AcquireOutcome {
    /// A grant whose leases count from the request.
    pub fn granted(fences: Vec<FencingToken>) -> AcquireOutcome {
        AcquireOutcome::granted_permits(fences, Vec::new())
    }

    /// The same with the numbers of the permits.
    pub fn granted_permits(fences: Vec<FencingToken>, permits: Vec<Permits>) -> AcquireOutcome {
        AcquireOutcome::Granted(Grant { fences, permits, counted_from: None })
    }
}

/// The answer to a request for one of several locks.
#[derive(Debug)]
pub enum OneOutcome {
    /// The lock of the request at this place is held, and no other.
    Granted { place: usize, grant: Grant },
    /// None of them is free: the one with the fewest waiters ahead.
    Busy(Box<Busy>),
}

impl OneOutcome {
    /// A grant of the lock at this place, whose lease counts from the request.
    pub fn granted(place: usize, fence: FencingToken) -> OneOutcome {
        let grant = Grant { fences: vec![fence], permits: Vec::new(), counted_from: None };
        OneOutcome::Granted { place, grant }
    }

    /// Each of the locks is busy. The store may be unable to say more, and names none.
    pub fn busy(each: impl IntoIterator<Item = Busy>, requests: &[Request]) -> OneOutcome {
        let nearest = each.into_iter().min_by_key(|busy| busy.ahead);
        OneOutcome::Busy(nearest.unwrap_or_else(|| Busy::by_unknown(requests[0].key.clone())).into())
    }
}

/// Asks for each of these locks alone, until one is granted.
pub fn one_after_the_other<S: Store + ?Sized>(
    store: &mut S,
    requests: &[Request],
    timeout: &Timeout,
) -> Result<OneOutcome> {
    let mut each = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        match store.acquire(from_ref(request), timeout)? {
            AcquireOutcome::Granted(grant) => return Ok(OneOutcome::Granted { place, grant }),
            AcquireOutcome::Busy(busy) => {
                store.leave(timeout);
                each.push(*busy);
            }
        }
    }
    Ok(OneOutcome::busy(each, requests))
}

/// Why a lock was not granted now.
#[derive(Clone, Debug)]
pub struct Busy {
    pub key: Key,
    /// The holder; `None` when the store cannot say.
    pub holder: Option<Holder>,
    /// The number of other holders.
    pub others: usize,
    /// The number of waiters that are served earlier; `None` without a queue.
    pub ahead: Option<usize>,
}

impl Busy {
    /// The store cannot say who holds the lock.
    pub fn by_unknown(key: Key) -> Busy {
        Busy { key, holder: None, others: 0, ahead: Some(0) }
    }
}

/// The answer to a renewal.
#[derive(Debug)]
pub enum Renewal {
    Extended,
    /// Nobody held the lock and nobody else was granted it since: it is held again.
    Healed,
    /// Somebody released it with this token, and nobody else was granted it since, or holds it now. A store that cannot
    /// tell counts it as lost.
    Released,
    /// It was broken or deleted, or another holds it, or was granted it since.
    Lost(Option<Box<Holder>>),
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// This token held it.
    Released,
    /// It was gone, and this token was the last that held it. A store that cannot tell says [`ReleaseOutcome::NotHeld`].
    Vacant,
    NotHeld,
}

impl From<bool> for ReleaseOutcome {
    fn from(was_held: bool) -> ReleaseOutcome {
        if was_held { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }
    }
}

/// One of several leases to renew.
pub struct RenewalRequest {
    pub request: Request,
    /// The fencing token of the grant: see [`Store::renew`].
    pub fence: Option<FencingToken>,
    /// The longest time for one attempt.
    pub attempt: Duration,
    /// An answer is of no use from here on.
    pub until: Deadline,
}

impl RenewalRequest {
    /// For one of `several` renewals in the time of one attempt.
    pub fn timeout<'a>(&self, several: u32, interrupt: Option<BorrowedFd<'a>>) -> Timeout<'a> {
        let attempt = (self.attempt / several).max(SHORTEST_ATTEMPT);
        Timeout { until: Deadline::after(attempt).min(self.until), interrupt }
    }
}

/// Takes the answers of [`Store::renew_all`]: the index of the lease, from when its TTL counts, and what became of it.
pub type OnRenewal<'a> = &'a mut dyn FnMut(usize, BootTime, Result<Renewal>);

/// Where locks are kept.
///
/// # Before the first call
///
/// A store connects, starts threads and starts runtimes with its first call, none of them earlier: the caller makes
/// it, then forks the guard of the job and the keeper of `--while-pid`. A store is not used on both sides of a fork.
///
/// # Atomicity and time
///
/// Each call is atomic for each key, returns within its [`Timeout`], and may be repeated after an unknown outcome: the
/// store recognises the owner token. Only [`Store::acquire`] is atomic over several keys.
///
/// A lease counts from before the call that took or renewed it was sent, as the store may have begun to count at any
/// moment after that.
///
/// # Errors
///
/// After [`StoreError::Unreachable`], [`StoreError::Unconfirmed`] and [`StoreError::Interrupted`] the outcome is
/// unknown: the store may carry out the request later. A request for a lock is then asked again or cancelled, a
/// renewal is asked again until the lease ends, and a release leaves the lock to the end of its lease. After every
/// other error nothing was changed.
pub trait Store: Send {
    /// The capabilities of this kind of store. The caller has refused whatever it cannot before it calls anything else.
    fn capabilities(&self) -> Capabilities;

    /// Asks for locks once, without a place in the queue: all of them are granted, or none. The requests differ in
    /// nothing but their keys and modes. A request never overtakes a waiter.
    ///
    /// Asking again finds out an answer that was lost. A store that needs several steps gives back what the first ones
    /// took when a later one fails.
    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome>;

    /// Asks for one lock and takes a place in its queue, or keeps the one it has. It is the only place of this store
    /// until the grant was followed by [`Store::settle`], or was cancelled.
    ///
    /// Where the outcome is unknown the place may be there, and the lock may be granted to it at any time.
    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome>;

    /// Asks for one of several exclusive locks: the first that is free. When `is_queued`, the request takes a place in the
    /// queue of each, or keeps those that it has, and leaves them all with the grant. A store without such places
    /// ([`Capabilities::one_of`]) is asked for one lock after the other.
    fn acquire_one(
        &mut self,
        requests: &[Request],
        is_queued: bool,
        timeout: &Timeout,
    ) -> Result<OneOutcome> {
        debug_assert!(!is_queued, "refused before: see Capabilities::one_of");
        one_after_the_other(self, requests, timeout)
    }

    /// Waits until it makes sense to call [`Store::enqueue`] again: `true`, or `false` when the timeout ends first. A
    /// connection that is lost is such a reason, so the only error is [`StoreError::Interrupted`].
    fn wait(&mut self, timeout: &Timeout) -> Result<bool>;

    /// The lock is busy, and [`Store::wait`] comes next: prepares what the grant will begin with. A failure here is made
    /// up for later.
    fn prepare(&mut self) {}

    /// The lock is held, and nothing is urgent: leaves the queue, tells the next waiter that it is the first now, and
    /// prepares what the release will begin with. A failure here is made up for later.
    fn settle(&mut self) {}

    /// Extends a lease to one TTL from now; one that is longer stays. With the `fence` of the grant, a lock that is
    /// gone is taken again if nobody else was granted it since, and the answer says whether one was released or lost.
    /// Without it, only a lease that is there is extended. A store that loses nothing never takes a lock again.
    fn renew(&mut self, request: &Request, fence: Option<FencingToken>, timeout: &Timeout)
    -> Result<Renewal>;

    /// Renews several leases, and tells what became of each as soon as that is known. Ends early when `interrupt` is
    /// readable, with [`StoreError::Interrupted`] for the one that was being renewed.
    ///
    /// A store that cannot renew several with one request renews one after the other, as here: when one attempt had no
    /// answer, the others share the time of a second one.
    fn renew_all(&mut self, leases: &[RenewalRequest], interrupt: Option<BorrowedFd>, on_renewal: OnRenewal) {
        let mut share = 1;
        for (index, lease) in leases.iter().enumerate() {
            let sent = BootTime::now();
            let renewal = self.renew(&lease.request, lease.fence, &lease.timeout(share, interrupt));
            match &renewal {
                Err(error) if error.is_unknown() => share = leases.len() as u32,
                _ => {}
            }
            let is_interrupted = matches!(renewal, Err(StoreError::Interrupted));
            on_renewal(index, sent, renewal);
            if is_interrupted {
                return;
            }
        }
    }

    /// Hands each lock to its first live waiter, or frees it. Before the end of its `min_hold` it stays, held by
    /// nobody. Where an answer was lost, a lock may be [`ReleaseOutcome::NotHeld`] since the first attempt released it.
    fn release(&mut self, keys: &[Key], token: &OwnerToken, timeout: &Timeout)
    -> Result<Vec<ReleaseOutcome>>;

    /// Leaves the queue and gives back at once what was acquired, or may have been by a request whose answer is
    /// still out: that is cancelled behind it, so that a server that hangs does not grant it later. A store that has
    /// reached nothing since it was made need not do anything: a server that could not be reached has granted nothing.
    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()>;

    /// Gives everything back before the same requests are made again, from the first one on. A request that is held up
    /// on its way must not undo a later grant.
    fn start_over(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        self.cancel(requests, timeout)
    }

    /// A lock was busy, and is not asked for again: removes what the store made for the request, if it made anything.
    fn leave(&mut self, _timeout: &Timeout) {}

    /// The rest of the lease of this token: `None` when it does not hold the lock, `Duration::MAX` when the lock
    /// never expires. A store may extend the lease by this.
    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>>;

    /// Adds a run to the history of a lock, of which the last `keep` and the last success stay; without a run, counts a
    /// call that did not get the lock. The entry may be lost. [`Capabilities::history`] says whether there is a history
    /// at all.
    fn record(&mut self, _key: &Key, _run: Option<&RunRecord>, _keep: u8, _timeout: &Timeout) -> Result<()> {
        Ok(())
    }
}

/// The least time for one attempt of [`Store::renew_all`].
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(20);

/// The calls that look at locks of others: for `status`, `history` and `break`.
pub trait StoreAdmin: Store {
    /// Holders and waiters of these keys, or of every key that redlock knows. A server that does not answer hides what
    /// it has, and nothing else.
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey>;

    /// Holders and waiters of these keys, or an error if any of them is hidden.
    fn status(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Vec<LockStatus>> {
        self.survey(keys, timeout)?.complete()
    }

    /// The histories of these locks, or of all that have one.
    fn history(&mut self, _keys: &[Key], _timeout: &Timeout) -> Result<Vec<History>> {
        Ok(Vec::new())
    }

    /// Takes the lock away from these holders. A holder that can learn of it stops and frees the lock itself. Otherwise the
    /// lock is free at once.
    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken>;

    /// Changes the number of permits of a semaphore that is in use. More permits go to the first waiters at once; with fewer,
    /// nobody is let in until enough were returned. A waiter that wants more than all of them leaves the queue, and learns
    /// of it. [`Capabilities::counted_permits`] says whether the store can.
    fn resize(&mut self, _key: &Key, _permits: NonZeroU32, _timeout: &Timeout) -> Result<Resized> {
        debug_assert!(self.capabilities().counted_permits.is_ok(), "refused before");
        Ok(Resized::NotInUse)
    }
}
