//! Redis or Valkey: one server, the master that Sentinels name, or the server of a cluster that has the key.

mod health;
mod keys;
mod login;
mod multi_key;
mod net;
mod quorum;
mod refusal;
mod release;
mod replicas;
mod reply;
mod script;
mod status;
mod subscription;
mod topology;
mod url;
mod waiter;

use std::time::Duration;

use redis::Value;

pub use self::health::examine;
use self::keys::KeyNames;
use self::net::failure::RequestError;
use self::net::wait::go_on;
pub use self::quorum::{CAPABILITIES as QUORUM_CAPABILITIES, Quorum};
use self::refusal::{Refusal, accepted, in_short, refusal};
use self::reply::Taken;
use self::script::{Call, text};
use self::topology::{Target, Topology, Unanswered};
pub use self::url::Address;
use self::waiter::QueuePlace;
use crate::lock::{
    AcquireOutcome, Broken, Busy, Capabilities, FencingToken, Key, LockStatus, OwnerToken, Renewal, Request,
    Store, StoreAdmin, StoreError, Survey, Timeout, TokenMint, Ttl,
};

/// The store on whatever one address leads to. It connects when it is asked for something.
pub struct Redis {
    route: Topology,
    waiter: Option<QueuePlace>,
    /// Connections on which something was given back without an answer: it may still be carried out, and must not
    /// undo what is taken with the same token later.
    cancelling: Vec<Unanswered>,
    /// Healed, and nobody was told so far, as too few replicas had it.
    healed: Vec<Key>,
    /// As many have to have a lock before it counts as taken, or as renewed.
    replicas: u8,
}

/// Of one server, and of those behind Sentinel or in a cluster.
pub const CAPABILITIES: Capabilities = Capabilities {
    shared: Ok(()),
    semaphore: Ok(()),
    queue: true,
    ttl_can_change: true,
    shortest_ttl: Ttl::SHORTEST,
    ttl_resolution: Duration::from_millis(1),
    replicas: Ok(()),
    token_mint: TokenMint::Caller,
    outlives_process: true,
};

/// For a request whose answer does not matter.
const SETTLING: Duration = Duration::from_millis(100);

impl Redis {
    /// A store that connects when it is asked for something.
    pub fn new(address: Address, replicas: u8) -> Redis {
        let route = Topology::new(address);
        Redis { route, waiter: None, cancelling: Vec::new(), healed: Vec::new(), replicas }
    }

    /// Calls a script.
    fn call(&mut self, call: &Call, patience: &Timeout) -> Result<Value, StoreError> {
        let place = call.place();
        let reply = self.route.query(place, &call.by_hash(), patience)?;
        let reply = match &reply {
            Value::ServerError(error) if refusal(error) == Refusal::NoScript => {
                self.route.query(place, &call.in_full(), patience)?
            }
            _ => reply,
        };
        if matches!(&reply, Value::ServerError(error) if refusal(error) == Refusal::WrongType) {
            for key in call.keys() {
                for (name, expected) in KeyNames::of(key).types() {
                    let found = self.route.query(place, redis::cmd("TYPE").arg(name), patience)?;
                    let found = text(Some(&found));
                    if ![expected, "none", ""].contains(&found.as_str()) {
                        let (store, found) =
                            (self.route.name.clone(), format!("a {} under '{name}'", in_short(&found)));
                        return Err(StoreError::NotALock { store, key: key.clone(), found });
                    }
                }
            }
        }
        self.accepted(reply)
    }

    /// The reply, unless it is an error.
    fn accepted(&self, reply: Value) -> Result<Value, StoreError> {
        accepted(reply, &self.route.name)
    }

    /// A call that counts only when the server still is in charge; the owner token makes it safe to repeat.
    fn call_in_charge(&mut self, call: &Call, patience: &Timeout) -> Result<Value, StoreError> {
        loop {
            let reply = self.call(call, patience)?;
            if self.route.is_in_charge(call.place(), patience)? {
                return Ok(reply);
            }
            // Two that name each other do so without end.
            go_on(patience).map_err(|failure| self.unreachable(failure))?;
        }
    }

    /// What a reply says; one that says nothing known leaves the outcome unknown.
    fn understood<T>(&mut self, meaning: Option<T>) -> Result<T, StoreError> {
        meaning.ok_or_else(|| {
            self.route.distrust();
            self.unreachable(RequestError::Broken(
                "its answer makes no sense; is it a Redis server?".to_owned(),
            ))
        })
    }

    fn unreachable(&self, failure: RequestError) -> StoreError {
        failure.of(&self.route.name)
    }

    /// Takes locks with one script; in a cluster all of them are in one slot.
    fn take_together(
        &mut self,
        requests: &[Request],
        patience: &Timeout,
    ) -> Result<AcquireOutcome, StoreError> {
        let Some(first) = requests.first() else { return Ok(AcquireOutcome::granted(Vec::new())) };
        self.await_cancels(requests, patience)?;
        let reply = self.call_in_charge(&take_call(first, requests, "once", ""), patience)?;
        match self.understood(reply::taken(reply, requests))?? {
            Taken::Granted(fences) => {
                self.expect_replicas(requests, patience)?;
                Ok(AcquireOutcome::granted(fences))
            }
            Taken::Busy { busy, .. } => {
                if self.route.owes_answers() {
                    // An attempt before this one has no answer yet, and must not get the lock later.
                    let _ = Store::cancel(self, requests, patience);
                }
                Ok(AcquireOutcome::Busy(*busy))
            }
            // Only who stands in line is told so.
            Taken::Vanished { .. } => Ok(AcquireOutcome::Busy(Busy::by_unknown(first.key.clone()))),
        }
    }
}

/// The requests of one `take` differ in nothing but their keys.
fn take_call(first: &Request, requests: &[Request], mode: &str, ticket: &str) -> Call {
    let keys = requests.iter().map(|request| &request.key);
    Call::of_several(&script::TAKE, keys, Some(&first.token))
        .arg(first.ttl.as_millis())
        .arg(first.metadata.to_json())
        .arg(mode)
        .arg(ticket)
        .arg(first.min_hold.as_millis())
        .arg(reply::kind_name(first.mode))
}

fn renew_call(request: &Request, fence: Option<FencingToken>) -> Call {
    Call::new(&script::RENEW, &request.key, Some(&request.token))
        .arg(request.ttl.as_millis())
        .arg(request.metadata.to_json())
        .arg(fence.map(|fence| fence.to_string()).unwrap_or_default())
        .arg(reply::kind_name(request.mode))
}

impl Store for Redis {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], patience: &Timeout) -> Result<AcquireOutcome, StoreError> {
        if self.are_apart(requests.iter().map(|request| &request.key)) {
            return self.take_by_slot(requests, patience);
        }
        self.take_together(requests, patience)
    }

    fn enqueue(&mut self, request: &Request, patience: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let mut waiter = self.waiter.take().unwrap_or_else(|| QueuePlace::new(request.clone()));
        let answer = self.ask_in_line(&mut waiter, patience);
        self.waiter = Some(waiter);
        answer
    }

    fn wait(&mut self, patience: &Timeout) -> Result<bool, StoreError> {
        match &mut self.waiter {
            Some(waiter) => waiter.listen(patience),
            None => Ok(true),
        }
    }

    fn on_idle(&mut self) {
        if let Some(waiter) = self.waiter.take_if(|waiter| waiter.is_granted()) {
            // The end of our job is a moment at which the server has better to do than to end a subscription.
            // A renewal tells the next in line. Nobody waits for its answer, which is skipped in the end.
            let call = renew_call(&waiter.request, None);
            self.route.tell(call.place(), &call.by_hash(), &Timeout::of(SETTLING));
        }
        script::RELEASE.make_ready();
        if let Some(waiter) = &mut self.waiter
            && waiter.is_new()
        {
            // Changes nothing while we wait, and the server knows the script when we have the lock.
            let call = renew_call(&waiter.request, None);
            let _ = self.call(&call, &Timeout::of(SETTLING));
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let reply = self.call_in_charge(&renew_call(request, fence), patience)?;
        let renewal = self.understood(reply::renewed(reply))?;
        self.replicated(renewal, request, patience)
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Vec<bool>, StoreError> {
        let calls = self.release_calls(keys, token, "");
        self.route.forget_answered();
        let hung = self.send_behind_unanswered(&calls, patience);
        let (mut released, mut failed) = (Vec::new(), None);
        for (done, call) in calls.iter().enumerate() {
            match self.released(call, &patience.share(calls.len() - done)) {
                // Asked twice, "not held" means that the first one was carried out.
                Ok(held) if self.route.repeated || !hung.is_empty() => {
                    released.extend(call.keys().iter().zip(held.iter().map(|_| true)));
                }
                Ok(held) => released.extend(call.keys().iter().zip(held)),
                // One that cannot be given back does not keep the others.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let was_held = |key: &Key| released.iter().any(|(of, held)| *of == key && *held);
        failed.map_or_else(|| Ok(keys.iter().map(was_held).collect()), Err)
    }

    fn cancel(&mut self, requests: &[Request], patience: &Timeout) -> Result<(), StoreError> {
        let Some(first) = requests.first().filter(|_| self.route.asked) else { return Ok(()) };
        let keys: Vec<Key> = requests.iter().map(|request| request.key.clone()).collect();
        let calls = self.release_calls(&keys, &first.token, &QueuePlace::place(first));
        let mut hung = self.send_behind_unanswered(&calls, patience);
        self.waiter = None;
        let mut failed = None;
        if hung.is_empty() || self.route.is_guided() {
            for (done, call) in calls.iter().enumerate() {
                failed = failed.or(self.released(call, &patience.share(calls.len() - done)).err());
            }
        }
        self.cancelling.append(&mut hung);
        self.await_cancels(requests, patience)?;
        failed.map_or(Ok(()), Err)
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Option<Duration>, StoreError> {
        let call = Call::new(&script::CHECK, key, Some(token));
        let reply = self.call_in_charge(&call, patience)?;
        self.understood(reply::checked(&reply))
    }

    fn status(&mut self, keys: &[Key], patience: &Timeout) -> Result<Vec<LockStatus>, StoreError> {
        self.survey(keys, patience)?.complete()
    }
}

impl StoreAdmin for Redis {
    fn survey(&mut self, keys: &[Key], patience: &Timeout) -> Result<Survey, StoreError> {
        self.look_everywhere(keys, patience)
    }

    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        patience: &Timeout,
    ) -> Result<Broken, StoreError> {
        let call = Call::new(&script::BREAK, key, token);
        let reply = self.call_in_charge(&call, patience)?;
        let (broken, is_handed_over) = self.understood(reply::broken(reply))?;
        if is_handed_over {
            self.see_confirmed(key, patience);
        }
        Ok(broken)
    }
}

impl Redis {
    /// Asks with a place in the queue. The wake-up channel is opened first: who cannot be woken counts
    /// as dead.
    fn ask_in_line(
        &mut self,
        waiter: &mut QueuePlace,
        patience: &Timeout,
    ) -> Result<AcquireOutcome, StoreError> {
        loop {
            if !waiter.is_listening() {
                let place = Target::Key(&waiter.request.key);
                let connection = self.route.connect_beside(place, patience)?;
                waiter.listen_on(connection, patience).map_err(|failure| {
                    self.route.suspect_beside();
                    self.unreachable(failure)
                })?;
            }
            let requests = std::slice::from_ref(&waiter.request);
            self.await_cancels(requests, patience)?;
            let call = take_call(&waiter.request, requests, waiter.mode(), waiter.ticket());
            let reply = self.call_in_charge(&call, patience)?;
            let taken = self.understood(reply::taken(reply, requests))??;
            if matches!(taken, Taken::Granted(_)) {
                self.expect_replicas(requests, patience)?;
            } else if !self.route.is_beside() && !patience.until.has_passed() {
                // Those who wake others there do not see that we listen elsewhere.
                waiter.listen_elsewhere();
                continue;
            }
            return Ok(waiter.note(taken));
        }
    }
}
