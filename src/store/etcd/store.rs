//! The store: what each call of the contract is in etcd.

use std::time::Duration;

use super::calls::{EtcdCalls, holder};
use super::layout::EtcdAddress;
use super::lease_id::LeaseId;
use super::members::EtcdMembers;
use super::release::{IDLE_TIMEOUT, Release};
use super::waiter::{EtcdWaiter, LONGEST_RENEWAL};
use crate::clock::BootTime;
use crate::lock::{
    AcquireOutcome, Busy, Capabilities, FencingToken, Key, OwnerToken, ReleaseOutcome, Renewal, Request,
    Store, StoreError, Timeout,
};
use crate::store::queue::NOT_COUNTED;

/// The capabilities of etcd.
pub const CAPABILITIES: Capabilities = Capabilities {
    counted_permits: Err(NOT_COUNTED),
    priorities: Err("etcd serves waiters in the order of their arrival"),
    one_of: Err("etcd has a queue for each lock, and a request can wait in only one; leave out --wait"),
    ttl_can_change: false,
    // A lease lives for one and a half election timeouts at least; the usual one is a second.
    shortest_ttl: Duration::from_secs(2),
    ttl_resolution: Duration::from_secs(1),
    replicas: Err("etcd has no replicas to wait for; a majority of its members has every lock"),
    history: Err(
        "etcd keeps no history: it would keep every version of it until the next compaction; --log-file and --metrics-file tell of the runs of a host",
    ),
    ..Capabilities::ALL
};

/// The store at one address. It connects with the first call.
///
/// # Deadlines
///
/// A lease ends in etcd at the earliest one TTL after we sent the request that granted or extended it: the leader
/// counts from when it carries that out, and a new leader counts again from its election (lease/lessor.go, `Promote`).
/// Before etcd 3.4.31 and 3.5.13 a leader that had stalled could end leases that another leader had extended (etcd
/// issue 15247).
pub struct Etcd {
    pub(super) calls: EtcdCalls,
    place: Option<EtcdWaiter>,
    /// The answer for the lock that was busy last.
    pub(super) busy: Option<Box<Busy>>,
    /// When the leases of attempts were made, by requests that were sent then.
    pub(super) made: Vec<(LeaseId, BootTime)>,
    /// One of the locks was waited for: there may be a lease of a waiter to be ended, and others in the queue.
    has_queued: bool,
    /// The keys of locks that were granted here, where no look is needed before the release.
    without_min_hold: Vec<Vec<u8>>,
}

impl Etcd {
    pub fn new(address: EtcdAddress) -> Etcd {
        let layout = address.layout.clone();
        let calls = EtcdCalls { members: EtcdMembers::new(address), layout };
        Etcd {
            calls,
            place: None,
            busy: None,
            made: Vec::new(),
            has_queued: false,
            without_min_hold: Vec::new(),
        }
    }

    fn revoke_all(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        let revoked = timeout.share_among(requests, |request, share| {
            let id = LeaseId::of(&request.token, &request.key);
            match self.has_queued {
                true => self.calls.revoke_both(id.holding(), id.waiting(), share),
                false => self.calls.revoke(id.holding(), share),
            }
        });
        revoked.map(drop)
    }

    /// Remembers what was granted.
    fn note<'a>(&mut self, requests: impl IntoIterator<Item = &'a Request>) {
        for Request { key, token, mode, .. } in requests.into_iter().filter(|one| one.min_hold.is_zero()) {
            self.without_min_hold.push(self.calls.layout.name(key, LeaseId::of(token, key), *mode));
        }
    }
}

impl Store for Etcd {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let answer = self.take(requests, timeout);
        if matches!(answer, Ok(AcquireOutcome::Granted(_))) {
            self.note(requests);
        }
        answer
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        self.has_queued = true;
        let id = LeaseId::of(&request.token, &request.key);
        let made_at = self.made.iter().find(|(known, _)| *known == id).map(|(_, at)| *at);
        let busy = self.busy.take().filter(|busy| busy.key == request.key);
        let place = self.place.get_or_insert_with(|| EtcdWaiter::new(request.clone(), busy, made_at));
        let answer = place.ask(&mut self.calls, timeout);
        if matches!(answer, Ok(AcquireOutcome::Granted(_))) {
            self.note([request]);
        }
        answer
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool, StoreError> {
        match &mut self.place {
            Some(place) => place.wait(&mut self.calls, timeout),
            None => Ok(true),
        }
    }

    fn settle(&mut self) {
        self.place.take_if(|place| place.is_granted());
    }

    fn prepare(&mut self) {
        if let Some(place) = &mut self.place {
            place.prepare(&mut self.calls, &Timeout::of(IDLE_TIMEOUT));
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        _fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let keeps_place = self.place.as_ref().is_some_and(|place| !place.is_granted());
        let timeout = &if keeps_place { timeout.at_most(LONGEST_RENEWAL) } else { *timeout };
        let (key, id) = (&request.key, LeaseId::of(&request.token, &request.key));
        let (look, lease) = (self.calls.own_request(key, id), id.holding());
        // A lease may outlive a key that somebody deleted.
        let (ttl, own) = self.calls.members.call(timeout, |client| {
            let look = look.clone();
            async move { tokio::try_join!(client.keep_alive(lease), client.range(look)) }
        })?;
        let own = self.calls.read_own(key, id, &own.kvs);
        let wanted = request.ttl.duration().as_secs() as i64;
        match own.held().filter(|_| ttl > 0) {
            Some(held) if own.broken.is_some() => {
                Ok(Renewal::Lost(Some(holder(&held.clone(), own, ttl).into())))
            }
            Some(_) if ttl < wanted => Err(StoreError::Unusable {
                store: self.calls.members.name().to_owned(),
                why: format!(
                    "the lease of '{key}' was made for {ttl}s, which cannot be changed; use --ttl {ttl}s"
                ),
            }),
            Some(_) => Ok(Renewal::Extended),
            // etcd loses nothing, so somebody deleted the key or ended its lease: it is not taken again. Only a key
            // that was left to its min-hold says that it was released: a lease may have been revoked by anybody, or
            // have ended.
            None => {
                let queue = self.calls.queue(key, 0, timeout)?.entries;
                let other = queue.first().filter(|first| first.id != id && !first.is_waiting());
                match other {
                    Some(other) => Ok(Renewal::Lost(Some(self.calls.holder(key, other, timeout)?.into()))),
                    None if own.entry.is_some() => Ok(Renewal::Released),
                    None => Ok(Renewal::Lost(None)),
                }
            }
        }
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        let Etcd { calls, has_queued, without_min_hold, .. } = self;
        Release { calls, has_queued: *has_queued, without_min_hold }.all(keys, token, timeout)
    }

    /// Requests in flight need these leases, whenever they are carried out.
    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        self.place = None;
        self.made.clear();
        if !self.calls.members.was_asked() {
            return Ok(());
        }
        self.revoke_all(requests, timeout)
    }

    fn start_over(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        self.place = None;
        for (done, request) in requests.iter().enumerate() {
            let share = timeout.share(requests.len() - done);
            self.calls.delete_own(&request.key, LeaseId::of(&request.token, &request.key), &share)?;
        }
        Ok(())
    }

    fn leave(&mut self, timeout: &Timeout) {
        for (id, _) in std::mem::take(&mut self.made) {
            // It ends by itself, if this fails.
            let _ = self.calls.revoke(id.holding(), &timeout.at_most(IDLE_TIMEOUT));
        }
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Option<Duration>, StoreError> {
        let id = LeaseId::of(token, key);
        let (look, lease) = (self.calls.own_request(key, id), id.holding());
        let (left, own) = self.calls.members.call(timeout, |client| {
            let look = look.clone();
            async move { tokio::try_join!(client.time_to_live(lease), client.range(look)) }
        })?;
        let own = self.calls.read_own(key, id, &own.kvs);
        let is_held = own.held().is_some() && own.broken.is_none() && left >= 0;
        Ok(is_held.then(|| Duration::from_secs(left.unsigned_abs())))
    }
}
