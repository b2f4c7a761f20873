//! A place in the queue of a lock: taken, kept, and left for the lock itself.

use std::time::Duration;

use super::calls::{ZooKeeperCalls, ZooKeeperQueue};
use super::client::SessionClient;
use super::contender::{Contender, id};
use super::error::ZooKeeperResult;
use super::layout::ZooKeeperAddress;
use super::message::{Answer, Code, Operation};
use super::owner::Owner;
use super::recipe::KeyConflict;
use crate::clock::{BootTime, Deadline};
use crate::lock::{AcquireOutcome, FencingToken, Grant, Mode, OwnerToken, Request, Timeout};
use crate::store::call_error::CallError;
use crate::store::net::check;
use crate::store::queue::{EntryData, holders, other_mode};

/// The time that a place outlives its waiter: the others wait no longer for it. A server may grant more, by default two
/// ticks of two seconds.
const TTL: Duration = Duration::from_secs(3);
/// Before the queue is looked at again, where the connection was lost.
const PAUSE: Duration = Duration::from_millis(100);

/// From one look at the queue to the next, in case that a change was not told.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// A request that stands in the queue.
///
/// While it does its nodes are in a session of its own with a short timeout; with the lock they move to the one of the
/// holder. Its place is in their names, which stay.
pub struct ZooKeeperWaiter {
    request: Request,
    client: SessionClient,
    place: Option<Contender>,
    /// A place was asked for, and the answer is not known.
    is_unsure: bool,
    /// On which of the connections those before us are watched, and since when.
    watched: Option<(u32, BootTime)>,
    /// Only holders are before us.
    is_next: bool,
    /// The holder, where nobody else is before us.
    predecessor: Option<Contender>,
    is_granted: bool,
}

/// The result of an attempt.
enum Step {
    Outcome(Box<AcquireOutcome>),
    Refused(KeyConflict),
    /// The place is gone, or those before it have changed.
    Again,
}

impl ZooKeeperWaiter {
    pub fn new(request: Request, address: &ZooKeeperAddress) -> ZooKeeperWaiter {
        let client = SessionClient::new(address, TTL);
        ZooKeeperWaiter {
            request,
            client,
            place: None,
            is_unsure: false,
            watched: None,
            is_next: false,
            predecessor: None,
            is_granted: false,
        }
    }

    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    pub fn token(&self) -> &OwnerToken {
        &self.request.token
    }

    /// The time that the place lives without a sign of life, if there is one.
    pub fn lifetime(&self) -> Option<Duration> {
        self.place.as_ref().and(self.client.session()).map(|session| session.timeout)
    }

    /// Takes the place, or looks what became of it, or says why the lock is not for this request.
    pub fn ask(
        &mut self,
        owner: &mut Owner,
        calls: &ZooKeeperCalls,
        address: &ZooKeeperAddress,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Result<AcquireOutcome, KeyConflict>> {
        loop {
            check(timeout)?;
            match self.step(owner, calls, address, timeout) {
                Ok(Step::Outcome(outcome)) => return Ok(Ok(*outcome)),
                Ok(Step::Refused(conflict)) => return Ok(Err(conflict)),
                Ok(Step::Again) => {}
                Err(CallError::Expired) => (self.place, self.is_unsure) = (None, false),
                Err(error) => return Err(error),
            }
        }
    }

    fn step(
        &mut self,
        owner: &mut Owner,
        calls: &ZooKeeperCalls,
        address: &ZooKeeperAddress,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Step> {
        let key = &self.request.key;
        self.client.connect(timeout)?;
        // It is gone: no look is needed when the transaction sees that, too.
        if let (Some(own), Some(predecessor)) = (&self.place, self.predecessor.take())
            && let Some(fence) =
                owner.move_in(&self.request, own, Some(&predecessor), calls, address, timeout)?
        {
            return Ok(Step::Outcome(Box::new(self.granted(fence, owner))));
        }
        if self.place.is_none() && !std::mem::replace(&mut self.is_unsure, true) {
            let one = std::slice::from_ref(&self.request);
            let placed = calls.place(one, EntryData::waiting, &mut self.client, timeout);
            if let Err(CallError::Denied(_) | CallError::Unusable(_)) = placed {
                self.is_unsure = false;
            }
            self.place = placed?.contenders.pop();
            self.is_unsure = self.place.is_none();
        }
        let look = calls.queues([key], self.is_unsure, &mut self.client, timeout)?.pop();
        let ZooKeeperQueue { contenders: queue, suspects, .. } = look.unwrap_or_default();
        let id = id(&self.request.token);
        let Some(place) = queue.iter().position(|contender| contender.id == Some(id)) else {
            // It ended while we could not keep it: the next one is at the end of the queue.
            (self.place, self.is_unsure) = (None, false);
            return Ok(Step::Again);
        };
        self.is_unsure = false;
        let own = self.place.insert(queue[place].clone());
        let before = &queue[..place];
        if let Some(conflict) = calls.refuse_others(key, &suspects, &mut self.client, timeout)? {
            return Ok(Step::Refused(conflict));
        }
        if let Some(other) = other_mode(before, self.request.mode) {
            return Ok(Step::Refused(KeyConflict::OtherMode(other)));
        }
        if holders(&queue) > place {
            return match owner.move_in(&self.request, own, None, calls, address, timeout)? {
                Some(fence) => Ok(Step::Outcome(Box::new(self.granted(fence, owner)))),
                None => Ok(Step::Again),
            };
        }
        self.is_next = holders(&queue) == place;
        let busy = calls.busy(key, before, &mut self.client, timeout)?;
        let watch = awaited(before, self.request.mode)
            .map(|contender| Operation::Exists { path: calls.path(key, contender.last_node()), watch: true });
        for reply in self.client.call(&watch.collect::<Vec<_>>(), timeout)? {
            match reply.answer {
                Ok(Answer::Stat(_)) => {}
                Ok(_) | Err(Code::NO_NODE) => return Ok(Step::Again),
                Err(code) => return Err(code.into()),
            }
        }
        self.watched = Some((self.client.connections(), BootTime::now()));
        let is_alone = self.request.mode == Mode::Exclusive && before.len() == 1;
        // One that only waits moves to another session when it is granted the lock.
        self.predecessor = before.first().filter(|_| is_alone && busy.holder.is_some()).cloned();
        Ok(Step::Outcome(Box::new(AcquireOutcome::Busy(busy.into()))))
    }

    fn granted(&mut self, fence: FencingToken, owner: &Owner) -> AcquireOutcome {
        self.is_granted = true;
        AcquireOutcome::Granted(Grant {
            fences: vec![fence],
            permits: Vec::new(),
            counted_from: owner.counted_from,
        })
    }

    /// Waits for a reason to ask again.
    pub fn wait(&mut self, timeout: &Timeout) -> ZooKeeperResult<bool> {
        let Some((connection, at)) = self.watched.filter(|_| self.place.is_some()) else {
            return self.pause(timeout);
        };
        let due = at.plus(LOOK_INTERVAL);
        if connection != self.client.connections() || due.has_passed() {
            self.predecessor = None;
            return Ok(true);
        }
        let has_news = self.client.await_news(&timeout.before(due))?;
        if !self.client.is_connected() {
            // The state on the next server is not known.
            self.predecessor = None;
        }
        Ok(has_news)
    }

    fn pause(&self, timeout: &Timeout) -> ZooKeeperResult<bool> {
        timeout.pause_until(Deadline::after(PAUSE)).map_err(|_| CallError::Interrupted)?;
        Ok(true)
    }

    /// Only holders are before us: there is time to prepare the grant.
    pub fn is_next(&self) -> bool {
        self.is_next && !self.is_granted
    }

    /// Leaves the queue.
    pub fn leave_queue(&mut self, timeout: &Timeout) -> ZooKeeperResult<()> {
        self.client.close(timeout)
    }

    /// The nodes are in another session now.
    pub fn dismiss(&mut self) {
        self.client.dismiss();
    }
}

/// Whose end is waited for: one, where the end of that is needed for the grant in any case, so that the others are not
/// woken by each end. A contender behind a waiter of a semaphore is notified when that gets its permit, as its nodes
/// are then created again.
fn awaited(before: &[Contender], mode: Mode) -> impl Iterator<Item = &Contender> {
    let last = before.len().saturating_sub(1);
    let from = match mode {
        Mode::Semaphore(permits) if before.len() <= permits.get() as usize => 0,
        Mode::Semaphore(_) | Mode::Exclusive => last,
        Mode::Shared => {
            before.iter().rposition(|contender| contender.mode == Mode::Exclusive).unwrap_or(last)
        }
    };
    let to = if mode == Mode::Shared { from + 1 } else { before.len() };
    before[from..to.min(before.len())].iter()
}
