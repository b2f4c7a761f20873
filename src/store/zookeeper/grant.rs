//! The grant of locks to an owner: of all at once, or of one after a wait in its queue.

use super::calls::{Condition, Placed, ZooKeeperCalls, ZooKeeperQueue};
use super::client::SessionClient;
use super::contender::{Contender, id};
use super::error::ZooKeeperResult;
use super::layout::ZooKeeperAddress;
use super::owner::Owner;
use super::recipe::KeyConflict;
use super::session::Session;
use crate::clock::BootTime;
use crate::lock::{Busy, FencingToken, Key, Request, Timeout};
use crate::store::call_error::CallError;
use crate::store::queue::{has_room, other_mode};

/// The result of a request for locks.
pub enum Taken {
    /// A fencing token for each of them.
    All(Vec<FencingToken>),
    Busy(Box<Busy>),
    Refused(Key, KeyConflict),
}

impl Owner {
    /// Continues the session or begins one, which has to live as long as the request wants.
    fn begin(
        &mut self,
        request: &Request,
        address: &ZooKeeperAddress,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Session> {
        let session = match self.client.attach(timeout) {
            Err(CallError::Expired) => {
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
        // A session of its own keeps the lock after its release.
        if request.min_hold > session.timeout && self.held.is_empty() {
            let mut trial = SessionClient::new(address, request.min_hold);
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
        calls: &ZooKeeperCalls,
        address: &ZooKeeperAddress,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Taken> {
        let Some(first) = requests.first() else { return Ok(Taken::All(Vec::new())) };
        self.counted_from = None;
        let session = self.begin(first, address, timeout)?;
        let keys = || requests.iter().map(|request| &request.key);
        let mut queues = calls.queues(keys(), self.is_unsure, &mut self.client, timeout)?;
        let id = id(&self.token);
        let own =
            |queue: &ZooKeeperQueue| queue.contenders.iter().position(|contender| contender.id == Some(id));
        let is_repeated = self.is_unsure && queues.iter().all(|queue| own(queue).is_some());
        if self.is_unsure && !is_repeated {
            // Nothing of it is there, unless somebody deleted a part.
            self.give_back(requests, &queues, calls, timeout)?;
            queues = calls.queues(keys(), false, &mut self.client, timeout)?;
        }
        if !is_repeated {
            for (request, queue) in requests.iter().zip(&queues) {
                if let Some(refused) = self.refuse(request, queue, calls, timeout)? {
                    return Ok(refused);
                }
            }
        }
        self.is_unsure = true;
        let value = |request: &Request| session.data(request);
        let (transaction, queues) = match is_repeated {
            true => (None, queues),
            false => {
                let placed = calls.place(requests, value, &mut self.client, timeout);
                let Placed { transaction, .. } = self.unless_denied(placed)?;
                (Some(transaction), calls.queues(keys(), false, &mut self.client, timeout)?)
            }
        };
        // Another one may have come between.
        let mut granted = Vec::with_capacity(requests.len());
        for (request, queue) in requests.iter().zip(&queues) {
            if let Some(conflict) =
                calls.refuse_others(&request.key, &queue.suspects, &mut self.client, timeout)?
            {
                self.give_back(requests, &queues, calls, timeout)?;
                return Ok(Taken::Refused(request.key.clone(), conflict));
            }
            let place = own(queue).unwrap_or(queue.contenders.len());
            let (before, from_here) = queue.contenders.split_at(place);
            match from_here.first().filter(|_| has_room(before, request.mode)) {
                Some(contender) => granted.push((request, contender, queue.changed)),
                None => {
                    let busy = calls.busy(&request.key, before, &mut self.client, timeout)?;
                    self.give_back(requests, &queues, calls, timeout)?;
                    return Ok(Taken::Busy(busy.into()));
                }
            }
        }
        let mut fences = Vec::with_capacity(requests.len());
        for (request, contender, changed) in &granted {
            let fence = match transaction.filter(|transaction| transaction == changed) {
                Some(transaction) => Some(transaction),
                // Others may have come and gone since our nodes were created, who were granted the lock later: the nodes
                // are created again. A break of the lock since then has touched them.
                None => {
                    let (client, untouched) = (&mut self.client, Condition::Version(0));
                    calls.move_to(client, &request.key, contender, &untouched, &value(request), timeout)?
                }
            };
            let Some(fence) = fence else {
                self.give_back(requests, &queues, calls, timeout)?;
                return Err(CallError::transient("the lock was taken away"));
            };
            fences.push(FencingToken(fence.unsigned_abs()));
        }
        for (request, contender, _) in granted {
            self.hold(request.key.clone(), contender.clone(), request.min_hold);
        }
        self.is_unsure = false;
        Ok(Taken::All(fences))
    }

    /// Deletes what this owner has in these queues.
    fn give_back(
        &mut self,
        requests: &[Request],
        queues: &[ZooKeeperQueue],
        calls: &ZooKeeperCalls,
        timeout: &Timeout,
    ) -> ZooKeeperResult<()> {
        let id = id(&self.token);
        for (request, queue) in requests.iter().zip(queues) {
            for own in queue.contenders.iter().filter(|contender| contender.id == Some(id)) {
                calls.delete(&request.key, own, &mut self.client, timeout)?;
            }
        }
        self.is_unsure = false;
        Ok(())
    }

    /// Why the lock cannot be taken now.
    fn refuse(
        &mut self,
        request: &Request,
        queue: &ZooKeeperQueue,
        calls: &ZooKeeperCalls,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<Taken>> {
        let (key, contenders) = (&request.key, &queue.contenders);
        if let Some(conflict) = calls.refuse_others(key, &queue.suspects, &mut self.client, timeout)? {
            return Ok(Some(Taken::Refused(key.clone(), conflict)));
        }
        if let Some(other) = other_mode(contenders, request.mode) {
            return Ok(Some(Taken::Refused(key.clone(), KeyConflict::OtherMode(other))));
        }
        if has_room(contenders, request.mode) {
            return Ok(None);
        }
        calls.busy(key, contenders, &mut self.client, timeout).map(|busy| Some(Taken::Busy(busy.into())))
    }

    /// A request that was refused was not carried out.
    fn unless_denied<T>(&mut self, done: ZooKeeperResult<T>) -> ZooKeeperResult<T> {
        if let Err(CallError::Denied(_) | CallError::Unusable(_) | CallError::Expired) = done {
            self.is_unsure = false;
        }
        done
    }

    /// The fencing token of a grant whose answer was lost; `None` when it is gone again.
    fn confirmed(
        &mut self,
        request: &Request,
        contender: &Contender,
        calls: &ZooKeeperCalls,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<FencingToken>> {
        let key = &request.key;
        let check = [calls.check(key, contender)];
        let is_there = self.client.call(&check, timeout)?.pop().is_some_and(|reply| reply.answer.is_ok());
        let node = calls.node(key, contender, &mut self.client, timeout)?.filter(|_| is_there);
        Ok(node.map(|node| FencingToken(node.stat.created.unsigned_abs())))
    }

    /// The first one in the queue becomes the holder: its nodes move from the session of the waiter to this one. `None`
    /// when they were gone, or `predecessor` was not.
    pub fn move_in(
        &mut self,
        request: &Request,
        contender: &Contender,
        predecessor: Option<&Contender>,
        calls: &ZooKeeperCalls,
        address: &ZooKeeperAddress,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<FencingToken>> {
        let ttl = request.ttl;
        let is_fresh = |begun: &BootTime| BootTime::now().since(*begun) < ttl.fresh_for();
        self.counted_from = self.client.begun().filter(|begun| is_fresh(begun) && request.min_hold.is_zero());
        let prepared = self.client.session().filter(|session| session.timeout >= ttl.duration()).cloned();
        let session = match prepared.filter(|_| self.counted_from.is_some() && !self.is_unsure) {
            Some(session) => session,
            None => {
                self.counted_from = None;
                self.begin(request, address, timeout)?
            }
        };
        // After an answer that was lost.
        let node = match std::mem::replace(&mut self.is_unsure, true) {
            true => calls.node(&request.key, contender, &mut self.client, timeout)?,
            false => None,
        };
        let is_moved = node.is_some_and(|node| node.value.is_some_and(|value| value.granted.is_some()));
        let fence = if is_moved {
            self.confirmed(request, contender, calls, timeout)?
        } else {
            let value = session.data(request);
            let (key, client) = (&request.key, &mut self.client);
            let condition = predecessor.map_or(Condition::None, Condition::Gone);
            let moved = calls.move_to(client, key, contender, &condition, &value, timeout);
            if self.counted_from.is_some() && matches!(moved, Err(CallError::Expired)) {
                // That of the waiter goes on: another session is begun.
                self.is_unsure = false;
                return Ok(None);
            }
            self.unless_denied(moved)?.map(|transaction| FencingToken(transaction.unsigned_abs()))
        };
        self.is_unsure = false;
        if fence.is_some() {
            self.hold(request.key.clone(), contender.clone(), request.min_hold);
        }
        Ok(fence)
    }
}
