//! The store of one server, or of several that share the keys or copy one another.

use std::num::NonZeroU32;
use std::time::Duration;

use super::queue_place::QueuePlace;
use super::routing::Routing;
use super::script::{self, AcquireReply, MakeCall, ReleaseCall, ReleaseReply};
use super::topology::Topology;
use super::url::RedisAddress;
use super::{history, survey};
use crate::lock::{
    AcquireOutcome, BreakScope, Breaker, Broken, Capabilities, FencingToken, History, Key, OneOutcome,
    OwnerToken, ReleaseOutcome, Renewal, Request, Resized, Result, RunRecord, Store, StoreAdmin, Survey,
    Timeout,
};

/// The store at one address. It connects with the first call.
pub struct Redis {
    pub(super) topology: Topology,
    pub(super) place: Option<QueuePlace>,
    /// Locks that were healed, which was not reported yet, as too few replicas had them.
    pub(super) healed: Vec<Key>,
    /// A lock counts as acquired, or as renewed, when so many replicas have it.
    pub(super) replicas: u8,
}

/// The time for a request whose answer does not matter.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);

impl Redis {
    pub fn new(address: RedisAddress, replicas: u8) -> Redis {
        Redis { topology: Topology::open(address), place: None, healed: Vec::new(), replicas }
    }

    /// Asks with a place in the queue. The subscription comes first: a waiter that cannot be woken counts as dead.
    pub(super) fn enqueue_at<R>(
        &mut self,
        place: &mut QueuePlace,
        call: MakeCall<R>,
        is_granted: fn(&R) -> bool,
        timeout: &Timeout,
    ) -> Result<R> {
        loop {
            if place.subscription.is_none() {
                let connection = self.topology.connect_listener(&place.requests[0].key, timeout)?;
                place.listen_on(connection, timeout).map_err(|error| {
                    self.topology.suspect_listener();
                    error.of(self.topology.name())
                })?;
            }
            let requests = &place.requests;
            self.topology.await_releases(requests, timeout)?;
            let call = call(&requests[0], requests, place.queueing(), &place.ticket);
            let reply = call.run_on_primary(&mut self.topology, timeout)??;
            if is_granted(&reply) || self.topology.is_listening_to_primary() || timeout.until.has_passed() {
                return Ok(reply);
            }
            // Clients that wake waiters on the primary do not see that we listen elsewhere.
            place.subscription = None;
        }
    }

    fn enqueue_for_all(&mut self, place: &mut QueuePlace, timeout: &Timeout) -> Result<AcquireOutcome> {
        let is_granted = |reply: &AcquireReply| matches!(reply, AcquireReply::Granted { .. });
        let reply = self.enqueue_at(place, script::acquire, is_granted, timeout)?;
        if is_granted(&reply) {
            self.expect_replicas(&place.requests, timeout)?;
        }
        Ok(place.note(reply))
    }

    /// Sends releases behind everything that is in flight. True if there is anything.
    pub(super) fn release_behind(&mut self, calls: &[ReleaseCall], timeout: &Timeout) -> bool {
        let (mut is_behind, index) = (false, self.topology.index());
        for server in self.topology.servers() {
            let releases = calls.iter().map(|call| call.in_full(index));
            is_behind |= server.in_flight.release_behind(releases, timeout);
        }
        is_behind
    }

    /// Runs all of these releases, also when one of them fails.
    fn release_each(&mut self, calls: &[ReleaseCall], timeout: &Timeout) -> Result<()> {
        let mut failed = None;
        for (done, call) in calls.iter().enumerate() {
            failed = failed.or(self.release_now(call, &timeout.share(calls.len() - done)).err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Runs a release, which says for each lock what became of it.
    pub(super) fn release_now(
        &mut self,
        call: &ReleaseCall,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>> {
        let released = call.run_on_primary(&mut self.topology, timeout);
        self.topology.mark_awaited();
        let released = released?;
        for (key, _) in call.keys().iter().zip(&released).filter(|(_, one)| **one == ReleaseReply::HandedOver)
        {
            script::confirm_handover(&mut self.topology, key, timeout);
        }
        Ok(released.into_iter().map(ReleaseOutcome::from).collect())
    }
}

impl Store for Redis {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        self.acquire_all(requests, timeout)
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome> {
        let mut place = self.place.take().unwrap_or_else(|| QueuePlace::new(vec![request.clone()]));
        let answer = self.enqueue_for_all(&mut place, timeout);
        self.place = Some(place);
        answer
    }

    fn acquire_one(
        &mut self,
        requests: &[Request],
        is_queued: bool,
        timeout: &Timeout,
    ) -> Result<OneOutcome> {
        self.one_of(requests, is_queued, timeout)
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        match &mut self.place {
            Some(place) => place.wait(timeout),
            None => Ok(true),
        }
    }

    fn settle(&mut self) {
        // The subscription ends now: at the end of the job the server has better to do.
        self.place.take_if(|place| place.is_granted);
    }

    fn prepare(&mut self) {
        if let Some(place) = &mut self.place
            && !std::mem::replace(&mut place.is_prepared, true)
        {
            // With a token that nobody has it changes nothing, and the server knows the script when we have the lock.
            let of_nobody = Request { token: OwnerToken::random(), ..place.requests[0].clone() };
            let _ = script::renew(&of_nobody, None).run(&mut self.topology, &Timeout::of(IDLE_TIMEOUT));
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        let renewal = script::renew(request, fence).run_on_primary(&mut self.topology, timeout)?;
        self.replicated(renewal, request, timeout)
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>> {
        let groups = self.by_slot(keys, |key| key);
        let calls: Vec<ReleaseCall> = groups.iter().map(|keys| script::release(keys, token)).collect();
        let was_behind = self.release_behind(&calls, timeout);
        let (mut released, mut failed) = (Vec::new(), None);
        for (done, call) in calls.iter().enumerate() {
            match self.release_now(call, &timeout.share(calls.len() - done)) {
                Ok(outcomes) => {
                    // Released twice, "not held" means that the first release was carried out.
                    let is_unsure = was_behind || *self.topology.has_repeated();
                    let outcomes = outcomes
                        .into_iter()
                        .map(|one| if is_unsure { ReleaseOutcome::Released } else { one });
                    released.extend(call.keys().iter().zip(outcomes));
                }
                // A lock that cannot be released does not keep the others.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let outcome = |key: &Key| {
            let found = released.iter().find(|(of, _)| *of == key);
            found.map_or(ReleaseOutcome::NotHeld, |(_, outcome)| *outcome)
        };
        failed.map_or_else(|| Ok(keys.iter().map(outcome).collect()), Err)
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        if !self.topology.was_asked() {
            return Ok(());
        }
        let calls = self.cancel_calls(requests);
        let was_behind = self.release_behind(&calls, timeout);
        self.place = None;
        // A server that is not the primary any more may carry out what hung.
        let released = match was_behind && self.topology.is_single() {
            true => Ok(()),
            false => self.release_each(&calls, timeout),
        };
        if self.topology.await_releases(requests, timeout)? {
            // The request may have been carried out behind its release.
            return self.release_each(&calls, timeout);
        }
        released
    }

    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>> {
        script::check(key, token).run_on_primary(&mut self.topology, timeout)
    }

    fn record(&mut self, key: &Key, run: Option<&RunRecord>, keep: u8, timeout: &Timeout) -> Result<()> {
        if let Some(command) = history::record(key, run, keep) {
            self.topology.send(key, &command, timeout);
        }
        Ok(())
    }
}

impl StoreAdmin for Redis {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
        survey::survey(&mut self.topology, keys, timeout)
    }

    fn history(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Vec<History>> {
        history::histories(&mut self.topology, keys, timeout)
    }

    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken> {
        let call = script::break_lock(key, scope, by);
        let (broken, is_handed_over) = call.run_on_primary(&mut self.topology, timeout)?;
        if is_handed_over {
            script::confirm_handover(&mut self.topology, key, timeout);
        }
        Ok(broken)
    }

    fn resize(&mut self, key: &Key, permits: NonZeroU32, timeout: &Timeout) -> Result<Resized> {
        let call = script::resize(key, permits);
        let (resized, is_handed_over) = call.run_on_primary(&mut self.topology, timeout)??;
        if is_handed_over {
            script::confirm_handover(&mut self.topology, key, timeout);
        }
        Ok(resized)
    }
}
