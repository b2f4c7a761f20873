//! The contract that every store fulfils.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{
    Breaker, Broken, Capabilities, FencingToken, History, Holder, Key, LockStatus, OwnerToken, Request,
    Result, RunRecord, StoreError, Survey, Timeout,
};
use crate::clock::{BootTime, Deadline};

/// The answer to a request for locks.
#[derive(Debug)]
pub enum AcquireOutcome {
    /// A fencing token for each of them. The locks are held for their TTL.
    Granted(Vec<FencingToken>),
    /// Nothing was granted, as one of the locks is not free.
    Busy(Box<Busy>),
}

/// Why a lock was not granted now.
#[derive(Clone, Debug)]
pub struct Busy {
    pub key: Key,
    /// Who has it; `None` when the store cannot say.
    pub holder: Option<Holder>,
    /// How many hold it beside that one.
    pub others: usize,
    /// How many waiters are served earlier; `None` where there is no queue.
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
    /// Somebody released it with this token, and nobody else was granted it since, or holds it now. ZooKeeper never says so,
    /// and etcd only until the end of a min-hold: what is gone counts as lost.
    Released,
    /// It was broken or deleted, or another holds it, or was granted it since.
    Lost(Option<Holder>),
}

/// What became of a lock that was to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// This token held it.
    Released,
    /// It was gone, and this token was the last that held it. Only Redis can tell.
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
    /// Of the grant: see [`Store::renew`].
    pub fence: Option<FencingToken>,
    /// How long one attempt may take.
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
///
/// # Other stores
///
/// In etcd each lock of a request is a lease and a key, and all keys are put by one transaction; a lease has a TTL in whole
/// seconds, which does not change. The leader counts it from when it applies the grant, and anew
/// after a change of leaders: later than we do. In ZooKeeper the locks of an owner are ephemeral nodes of one session. A
/// follower that is cut off from its leader answers pings of a session that has expired, so a renewal continues the session, which the leader
/// has to confirm, and writes, which a majority has to accept: see `Owner` in the store.
pub trait Store: Send {
    /// What this kind of store can do. The caller has refused whatever it cannot before it calls anything else.
    fn capabilities(&self) -> Capabilities;

    /// Asks for locks once, without a place in the queue: all of them are granted, or none. The requests differ in
    /// nothing but their keys. A request never overtakes a waiter.
    ///
    /// An answer that is lost is found out by asking again. Where a store needs several steps (Redis Cluster: one for
    /// each slot), it gives back what the first ones took when a later one fails.
    /// etcd: a lease for each, then one transaction that compares that nobody else is there, or behind it a look that says so.
    /// ZooKeeper: connect and one multi that creates the nodes; they are deleted again if one is not the first.
    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome>;

    /// Asks for one lock and takes a place in its queue, or keeps the one it has. Until the grant was followed by
    /// [`Store::on_idle`], or was cancelled, it is the only place of this store.
    ///
    /// Where the outcome is unknown the place may be there, and the lock may be granted to it at any time.
    /// etcd: the key stays; it holds the lock when it has the lowest create revision.
    /// ZooKeeper: the nodes stay, and are looked for by their id after a connection was lost.
    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome>;

    /// From when the leases of the last grant count, where that is before the request: the store had prepared them.
    ///
    /// etcd: the lease was made ahead. ZooKeeper: so was the session.
    fn counted_from(&self) -> Option<BootTime> {
        None
    }

    /// Waits until it makes sense to call [`Store::enqueue`] again: `true`, or `false` when the timeout ends first. A
    /// connection that is lost is such a reason, so the only error is [`StoreError::Interrupted`].
    /// etcd, ZooKeeper: a watch on the waiter before, while the own lease or session is kept alive.
    fn wait(&mut self, timeout: &Timeout) -> Result<bool>;

    /// There is time now: nothing is urgent after a grant, or before [`Store::wait`].
    ///
    /// After a grant a store tells the next waiter that it is the first, and gives up what woke us; then, and while it
    /// is in the queue, it prepares what the next grant and its release begin with. The local store rings and compiles
    /// statements; Redis sends a renewal whose answer is skipped, hashes the release script, and has the server
    /// learn the renewal script; a quorum stops listening. What goes wrong here is made up for later.
    /// etcd: the lease of the holder is made. ZooKeeper: its session is begun for the next in line.
    fn on_idle(&mut self) {}

    /// Extends a lease to one TTL from now; one that is longer stays. With the `fence` of the grant, a lock that
    /// is gone is taken again if nobody else was granted it since, and one that was released is told from one that is
    /// lost. Without it, only a lease that is there is extended.
    ///
    /// etcd: keep-alive and a look at the key, as a lease may outlive a key; what is gone was deleted by somebody and is not
    /// taken again. ZooKeeper: the session is continued on a new connection, then a multi checks the nodes.
    fn renew(&mut self, request: &Request, fence: Option<FencingToken>, timeout: &Timeout)
    -> Result<Renewal>;

    /// Renews several leases, and tells what became of each as soon as that is known. Ends early when `interrupt` is
    /// readable, with [`StoreError::Interrupted`] for the one that was being renewed.
    ///
    /// A store that cannot renew several with one request renews one after the other, as here: when one attempt was in
    /// vain, the others share the time of a second one. ZooKeeper: the locks of one owner are in one session, which is continued
    /// once for all of them.
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
    ///
    /// etcd: the key is deleted, behind a look at it where there may be a min-hold, and the lease is revoked.
    /// ZooKeeper: the nodes are deleted, and the session ends with the last of its locks.
    fn release(&mut self, keys: &[Key], token: &OwnerToken, timeout: &Timeout)
    -> Result<Vec<ReleaseOutcome>>;

    /// Leaves the queue and gives back at once what was acquired, or may have been by a request whose answer is
    /// still out: that is cancelled behind it, so that a server that hangs does not grant it later. A store that has
    /// reached nothing since it was made need not do anything: a server that could not be reached has granted nothing.
    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()>;

    /// The same before the same requests are made again, from the first one on.
    ///
    /// etcd: the keys that are there now are deleted, and no lease is revoked. A revocation that is held up on its way would end
    /// the lease of a later grant, as it has the same id.
    fn start_over(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        self.cancel(requests, timeout)
    }

    /// A lock was busy, and is not asked for again: removes what the store made for the request, if it made anything.
    ///
    /// etcd: revokes the leases, which exist before the keys.
    fn leave(&mut self, _timeout: &Timeout) {}

    /// What is left of the lease of this token: `None` when it does not hold the lock, `Duration::MAX` when the lock
    /// never expires.
    ///
    /// ZooKeeper: continues the session, which extends it, so this is its timeout.
    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>>;

    /// Adds a run to the history of a lock, of which the last `keep` and the last success stay; without a run, counts a call
    /// that did not get the lock. It may be lost: Redis is not asked what became of it.
    ///
    /// etcd, ZooKeeper: there is no history, see [`Capabilities`].
    fn record(&mut self, _key: &Key, _run: Option<&RunRecord>, _keep: u8, _timeout: &Timeout) -> Result<()> {
        Ok(())
    }

    /// Holders and waiters of these keys.
    ///
    /// etcd, ZooKeeper: the keys or nodes in their order, with the metadata as their value. Others see what is left of
    /// a lease in etcd, and not of a session in ZooKeeper.
    fn status(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Vec<LockStatus>>;
}

/// The least time for one attempt of [`Store::renew_all`].
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(20);

/// What only administrators do: `status`, `history` and `break`.
pub trait StoreAdmin: Store {
    /// Holders and waiters of these keys, or of every key that redlock knows. A server that does not answer hides what
    /// it has, and nothing else.
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey>;

    /// The histories of these locks, or of all that have one.
    fn history(&mut self, _keys: &[Key], _timeout: &Timeout) -> Result<Vec<History>> {
        Ok(Vec::new())
    }

    /// Takes the lock away from its holder, or from `token` only.
    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken>;
}
