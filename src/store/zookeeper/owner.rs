//! What has an owner token: a session, and the locks that are held in it.

use std::time::Duration;

use super::client::Client;
use super::contender::{Contender, has_room, id};
use super::error::{CallError, Result};
use super::ledger::{Ledger, Placed};
use super::message::Code;
use super::session::Session;
use super::url::Address;
use super::value::Value;
use crate::clock::{BootTime, Deadline};
use crate::lock::{Busy, FencingToken, Key, Mode, OwnerToken, Request, Timeout};

/// A session, and the locks that are held in it.
///
/// # Deadlines
///
/// A lease ends at the earliest one TTL after the call that granted or extended it was begun, since each such call does two
/// things, one after the other, on one connection:
///
/// 1. It begins a session or continues one. That the session is valid is said by the leader, who counts its timeout from then
///    (`LeaderZooKeeperServer.checkIfValidGlobalSession` calls `touchSession`; a new session is tracked from its creation on).
/// 2. It writes, even if it changes nothing (a multi of checks). A majority accepts that from their leader only, so the one
///    who counts was the leader still. Another one that is elected later counts the whole timeout from its own
///    start (`LeaderSessionTracker`), and all of them round up (`ExpiryQueue`).
///
/// The usual signs of life say less. A follower answers pings, and tells its leader about them when that asks for it, twice
/// a tick: one that is cut off goes on answering after the session has expired elsewhere. A write of a follower's client
/// does not count as a sign of life for the leader either: that comes with the next answer to the leader's question.
pub struct Owner {
    pub token: OwnerToken,
    client: Client,
    held: Vec<Held>,
    /// A request for locks was sent, and its answer is not known.
    is_unsure: bool,
}

struct Held {
    key: Key,
    contender: Contender,
    min_hold: Duration,
    granted: BootTime,
    /// It was broken, and its holder may go on until then: nobody renews it, while others in the session are.
    ends: Option<Deadline>,
}

/// What became of a request for locks.
pub enum Taken {
    /// A fencing token for each of them.
    All(Vec<FencingToken>),
    Busy(Busy),
    OtherMode(Key, Mode),
}

/// What a renewal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Held,
    /// Its holder is to stop.
    Broken,
    /// The nodes, or one of them, were deleted.
    Gone,
    /// The session ended.
    Expired,
}

impl Owner {
    pub fn new(token: OwnerToken, address: &Address, ttl: Duration) -> Owner {
        Owner { token, client: Client::new(address, ttl), held: Vec::new(), is_unsure: false }
    }

    /// Of a lock that another process was granted.
    pub fn adopt(token: OwnerToken, address: &Address, session: Session) -> Owner {
        Owner { client: Client::continuing(address, session), ..Owner::new(token, address, Duration::ZERO) }
    }

    pub fn has(&self, key: &Key) -> bool {
        self.held(key).is_some()
    }

    pub fn session(&self) -> Option<&Session> {
        self.client.session()
    }

    fn held(&self, key: &Key) -> Option<&Held> {
        self.held.iter().find(|held| held.key == *key)
    }

    /// From now on the lock is held.
    pub fn hold(&mut self, key: Key, contender: Contender, min_hold: Duration) {
        self.held.retain(|held| held.key != key);
        self.held.push(Held { key, contender, min_hold, granted: BootTime::now(), ends: None });
    }

    /// Continues the session or begins one, which has to live as long as the request wants.
    fn begin(&mut self, request: &Request, address: &Address, timeout: &Timeout) -> Result<Session> {
        let session = match self.client.attach(timeout) {
            Err(CallError::SessionExpired) => {
                self.held.clear();
                self.client.attach(timeout)?
            }
            attached => attached?,
        };
        let ttl = request.ttl;
        if session.timeout < ttl.duration() {
            if self.held.is_empty() {
                self.client.dismiss();
            }
            let longest = session.timeout.as_millis();
            return Err(CallError::Unusable(format!(
                "its sessions live for {longest} ms at most, not for --ttl {ttl}; use a shorter one, or raise maxSessionTimeout there"
            )));
        }
        // What keeps the lock after its release is a session of its own.
        if request.min_hold > session.timeout && self.held.is_empty() {
            let mut trial = Client::new(address, request.min_hold);
            let longest = trial.connect(timeout)?.timeout;
            trial.dismiss();
            if longest < request.min_hold {
                self.client.dismiss();
                let longest = longest.as_millis();
                return Err(CallError::Unusable(format!(
                    "its sessions live for {longest} ms at most, so it cannot keep a lock for a longer --min-hold; raise maxSessionTimeout there"
                )));
            }
        }
        Ok(session)
    }

    /// Takes all of the locks, or none, without waiting.
    pub fn take(
        &mut self,
        requests: &[Request],
        ledger: &Ledger,
        address: &Address,
        timeout: &Timeout,
    ) -> Result<Taken> {
        let Some(first) = requests.first() else { return Ok(Taken::All(Vec::new())) };
        let session = self.begin(first, address, timeout)?;
        let keys = || requests.iter().map(|request| &request.key);
        let mut queues = ledger.queues(keys(), self.is_unsure, &mut self.client, timeout)?;
        let id = id(&self.token);
        let own = |queue: &[Contender]| queue.iter().position(|contender| contender.id == Some(id));
        let is_repeated = self.is_unsure && queues.iter().all(|queue| own(queue).is_some());
        if self.is_unsure && !is_repeated {
            // Nothing of it is there, unless somebody deleted a part.
            self.give_back(requests, &queues, ledger, timeout)?;
            queues = ledger.queues(keys(), false, &mut self.client, timeout)?;
        }
        if !is_repeated {
            for (request, queue) in requests.iter().zip(&queues) {
                if let Some(refused) = self.refuse(request, queue, ledger, timeout)? {
                    return Ok(refused);
                }
            }
        }
        self.is_unsure = true;
        let (transaction, queues) = match is_repeated {
            true => (None, queues),
            false => {
                let value = |request: &Request| Value::granted(request, &session);
                let placed = ledger.place(requests, value, &mut self.client, timeout);
                let Placed { transaction, .. } = self.unless_denied(placed)?;
                (Some(transaction), ledger.queues(keys(), false, &mut self.client, timeout)?)
            }
        };
        // Another one may have come between.
        for (request, queue) in requests.iter().zip(&queues) {
            let place = own(queue).unwrap_or(queue.len());
            let before = &queue[..place];
            if place == queue.len() || !has_room(before, request.mode) {
                let busy = ledger.busy(&request.key, before, &mut self.client, timeout)?;
                self.give_back(requests, &queues, ledger, timeout)?;
                return Ok(Taken::Busy(busy));
            }
        }
        let contenders: Vec<&Contender> =
            queues.iter().filter_map(|queue| own(queue).map(|place| &queue[place])).collect();
        let mut fences = Vec::with_capacity(requests.len());
        for (request, contender) in requests.iter().zip(&contenders) {
            fences.push(match transaction {
                Some(transaction) => FencingToken(transaction.unsigned_abs()),
                None => match self.confirmed(request, contender, ledger, timeout)? {
                    Some(fence) => fence,
                    None => {
                        self.is_unsure = false;
                        return Err(CallError::transient("the lock was taken away meanwhile"));
                    }
                },
            });
        }
        for (request, contender) in requests.iter().zip(contenders) {
            self.hold(request.key.clone(), contender.clone(), request.min_hold);
        }
        self.is_unsure = false;
        Ok(Taken::All(fences))
    }

    /// Deletes what this owner has in these queues.
    fn give_back(
        &mut self,
        requests: &[Request],
        queues: &[Vec<Contender>],
        ledger: &Ledger,
        timeout: &Timeout,
    ) -> Result<()> {
        let id = id(&self.token);
        for (request, queue) in requests.iter().zip(queues) {
            for own in queue.iter().filter(|contender| contender.id == Some(id)) {
                ledger.delete(&request.key, own, &mut self.client, timeout)?;
            }
        }
        self.is_unsure = false;
        Ok(())
    }

    /// Why the lock cannot be taken now.
    fn refuse(
        &mut self,
        request: &Request,
        queue: &[Contender],
        ledger: &Ledger,
        timeout: &Timeout,
    ) -> Result<Option<Taken>> {
        let key = &request.key;
        if let Some(other) = queue.iter().find(|contender| !contender.mode.goes_with(request.mode)) {
            return Ok(Some(Taken::OtherMode(key.clone(), other.mode)));
        }
        if has_room(queue, request.mode) {
            return Ok(None);
        }
        ledger.busy(key, queue, &mut self.client, timeout).map(|busy| Some(Taken::Busy(busy)))
    }

    /// What was refused was not carried out.
    fn unless_denied<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(CallError::Denied(_) | CallError::Unusable(_) | CallError::SessionExpired) = done {
            self.is_unsure = false;
        }
        done
    }

    /// The fencing token of a grant whose answer was lost; `None` when it is gone again.
    fn confirmed(
        &mut self,
        request: &Request,
        contender: &Contender,
        ledger: &Ledger,
        timeout: &Timeout,
    ) -> Result<Option<FencingToken>> {
        let key = &request.key;
        let check = [ledger.check(key, contender)];
        let is_there = self.client.call(&check, timeout)?.pop().is_some_and(|reply| reply.answer.is_ok());
        let node = ledger.node(key, contender, &mut self.client, timeout)?.filter(|_| is_there);
        Ok(node.map(|node| FencingToken(node.stat.created.unsigned_abs())))
    }

    /// The first one in the queue becomes the holder: its nodes move from the session of the waiter to this one. `None`
    /// when they were gone.
    pub fn move_in(
        &mut self,
        request: &Request,
        contender: &Contender,
        ledger: &Ledger,
        address: &Address,
        timeout: &Timeout,
    ) -> Result<Option<FencingToken>> {
        let session = self.begin(request, address, timeout)?;
        // After an answer that was lost.
        let node = match std::mem::replace(&mut self.is_unsure, true) {
            true => ledger.node(&request.key, contender, &mut self.client, timeout)?,
            false => None,
        };
        let is_moved = node.is_some_and(|node| node.value.is_some_and(|value| value.granted.is_some()));
        let fence = if is_moved {
            self.confirmed(request, contender, ledger, timeout)?
        } else {
            let value = Value::granted(request, &session);
            let moved = ledger.move_to(&mut self.client, &request.key, contender, &value, timeout);
            self.unless_denied(moved)?.map(|transaction| FencingToken(transaction.unsigned_abs()))
        };
        self.is_unsure = false;
        if fence.is_some() {
            self.hold(request.key.clone(), contender.clone(), request.min_hold);
        }
        Ok(fence)
    }

    /// There is time to begin the session of a grant to come.
    pub fn prepare(&mut self, timeout: &Timeout) {
        if self.client.session().is_none() {
            let _ = self.client.connect(timeout);
        }
    }

    /// Extends the session, and says what became of a lock in it.
    pub fn renew(&mut self, key: &Key, ledger: &Ledger, timeout: &Timeout) -> Result<State> {
        let Some(held) = self.held(key) else { return Ok(State::Gone) };
        let check = [ledger.check(key, &held.contender)];
        let extended = self.client.attach(timeout).and_then(|_| self.client.call(&check, timeout));
        let state = match extended.map(|replies| replies.into_iter().next().map(|reply| reply.answer)) {
            Ok(Some(Ok(_))) => State::Held,
            Ok(Some(Err(Code::BAD_VERSION))) => State::Broken,
            Ok(Some(Err(Code::NO_NODE)) | None) => State::Gone,
            Ok(Some(Err(code))) => return Err(code.into()),
            Err(CallError::SessionExpired) => {
                self.held.clear();
                State::Expired
            }
            Err(error) => return Err(error),
        };
        match state {
            State::Gone => self.held.retain(|held| held.key != *key),
            State::Broken => {
                let end = self.client.session().map(|session| Deadline::after(session.timeout));
                let broken = self.held.iter_mut().find(|held| held.key == *key);
                broken.into_iter().for_each(|held| held.ends = held.ends.or(end));
            }
            State::Held => self.end_broken(ledger, timeout),
            State::Expired => {}
        }
        Ok(state)
    }

    /// Frees what was broken, when its lease has ended. What goes wrong here is made up for at the next renewal.
    fn end_broken(&mut self, ledger: &Ledger, timeout: &Timeout) {
        let Owner { held, client, .. } = self;
        held.retain(|held| {
            let has_ended = held.ends.is_some_and(Deadline::has_passed);
            !(has_ended && ledger.delete(&held.key, &held.contender, client, timeout).is_ok())
        });
    }

    /// Releases locks that are held here. `false` for one that was gone.
    pub fn release(
        &mut self,
        keys: &[Key],
        ledger: &Ledger,
        address: &Address,
        timeout: &Timeout,
    ) -> Result<Vec<bool>> {
        let mut released = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(held) = self.held(key) else {
                released.push(false);
                continue;
            };
            let (contender, left) =
                (held.contender.clone(), held.min_hold.saturating_sub(held.granted_for()));
            let was_held = match left.is_zero() {
                true => ledger.delete(key, &contender, &mut self.client, timeout),
                false => keep(key, &contender, left, ledger, address, timeout),
            };
            released.push(match was_held {
                Err(CallError::SessionExpired) => false,
                was_held => was_held?,
            });
            self.held.retain(|held| held.key != *key);
        }
        if self.held.is_empty() {
            self.client.dismiss();
        }
        Ok(released)
    }

    /// Ends the session, with all locks in it, and whatever is in flight for it.
    pub fn end(&mut self, timeout: &Timeout) -> Result<()> {
        self.client.close(timeout)?;
        (self.held, self.is_unsure) = (Vec::new(), false);
        Ok(())
    }

    /// Ends a session that holds nothing, as far as that takes no time.
    pub fn dismiss_if_idle(&mut self) -> bool {
        let is_idle = self.held.is_empty() && !self.is_unsure;
        if is_idle {
            self.client.dismiss();
        }
        is_idle
    }
}

impl Held {
    fn granted_for(&self) -> Duration {
        BootTime::now().since(self.granted)
    }
}

/// The lock stays for a while and is nobody's: its nodes move to a session that is left alone. `false` when it was gone.
pub fn keep(
    key: &Key,
    contender: &Contender,
    left: Duration,
    ledger: &Ledger,
    address: &Address,
    timeout: &Timeout,
) -> Result<bool> {
    let mut client = Client::new(address, left);
    client.connect(timeout)?;
    let Some(node) = ledger.node(key, contender, &mut client, timeout)? else {
        client.dismiss();
        return Ok(false);
    };
    let value = node.value.unwrap_or_default();
    if value.broken {
        let was_there = ledger.delete(key, contender, &mut client, timeout)?;
        client.dismiss();
        return Ok(was_there);
    }
    let kept = ledger.move_to(&mut client, key, contender, &value.kept(left), timeout)?;
    if kept.is_none() {
        client.dismiss();
    }
    Ok(kept.is_some())
}
