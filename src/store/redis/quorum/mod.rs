//! The Redlock algorithm: several independent servers, of which a majority decides.
//!
//! All are asked at once, each by a thread of its own, until no other answer can change what the majority said: a server
//! that hangs or is slow costs nothing. See "Distributed Locks with Redis" in the
//! Redis documentation.

mod acquire;
mod broadcast;
mod history;
mod identity;
mod majority;
mod member;
mod release;
mod retry_schedule;
mod status;

use std::time::Duration;

use self::broadcast::Members;
use self::majority::{Reply, Verdict, count, is_quorate, majority};
use self::member::{Member, Released};
use self::retry_schedule::RetrySchedule;
use super::history::histories;
use super::reply::accepted;
use super::routing::Routing;
use super::script;
use super::survey::survey;
use super::url::RedisAddress;
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, BreakScope, Breaker, Broken, Busy, Capabilities, FencingToken, History, Key, OwnerToken,
    ReleaseOutcome, Renewal, Request, Result, RunRecord, Store, StoreAdmin, Survey, Timeout, Ttl,
};

/// The store on several servers. Its threads start with the first call.
pub struct Quorum {
    addresses: Vec<RedisAddress>,
    /// None before the first call: the caller forks before it.
    members: Option<Members>,
    /// When to ask again for the lock that this process waits for.
    schedule: Option<RetrySchedule>,
    /// Locks were asked for.
    has_asked: bool,
    /// The last request for a lock was granted, and there was no idle time since.
    is_granted: bool,
}

/// The abilities of several servers of which a majority decides.
pub const CAPABILITIES: Capabilities = Capabilities {
    semaphore: Err("it needs one server; a majority of per-server counts does not bound the total"),
    queue: false,
    counted_permits: Err("a quorum has no permits"),
    priorities: Err("the waiters of a quorum form no queue"),
    one_of: Err("the waiters of a quorum form no queue; leave out --wait"),
    replicas: Err("the servers of a quorum are independent; none of them may be a replica"),
    ..Capabilities::ALL
};

/// One attempt waits for a server this long; small against the TTL, and long enough to connect.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(100);
/// A request that does not wait tries this long to decide split votes.
const SPLIT_VOTES: Duration = Duration::from_secs(1);
/// The other members have this long to add what the majority does not know of a lock.
const STATUS_GRACE: Duration = Duration::from_secs(1);
/// A release is sent at once where a server hangs, and answered at once where it does not.
const LINGER: Duration = Duration::from_millis(50);

impl Quorum {
    pub fn new(addresses: Vec<RedisAddress>) -> Quorum {
        Quorum { addresses, members: None, schedule: None, has_asked: false, is_granted: false }
    }

    fn members(&mut self) -> Result<&mut Members> {
        let members = match self.members.take() {
            Some(members) => members,
            None => Members::start(&self.addresses)?,
        };
        Ok(self.members.insert(members))
    }

    /// Hears the hints also of those members that were too slow to subscribe while they were asked.
    fn listen(&mut self, request: &Request) -> Result<()> {
        let members = self.members()?;
        let (key, until) = (request.key.clone(), Deadline::after(attempt_time(request.ttl)));
        let listen = move |member: &mut Member, timeout: &Timeout| {
            member.listen(&key, timeout);
            Ok(())
        };
        let _nobody_waits = members.ask(|index| members.is_deaf(index), until, true, listen);
        Ok(())
    }
}

fn all(_: usize) -> bool {
    true
}

fn attempt_time(ttl: Ttl) -> Duration {
    (ttl.duration() / 8).max(SHORTEST_ATTEMPT)
}

fn busy(busy: Busy) -> AcquireOutcome {
    AcquireOutcome::Busy(Box::new(Busy { ahead: None, ..busy }))
}

/// The hint that a lock was released: the same from each member.
fn new_hint() -> String {
    fastrand::u64(..).to_string()
}

impl Store for Quorum {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        let ttl = requests.first().map_or(Duration::ZERO, |request| request.ttl.duration());
        let for_splits = timeout.at_most((ttl / 4).min(SPLIT_VOTES));
        // When all release what they got, one of them is to get it in the end.
        let mut schedule = RetrySchedule::new();
        loop {
            match self.attempt(requests, &mut schedule, timeout)? {
                Verdict::Granted(fences) => return Ok(AcquireOutcome::granted(fences)),
                Verdict::Held { busy: held, .. } => return Ok(busy(held)),
                Verdict::Split(split) => {
                    if !schedule.wait(&mut [], &for_splits)? {
                        return Ok(busy(split));
                    }
                }
            }
        }
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome> {
        if self.schedule.is_none() {
            self.members()?.hear_about(Some(request.key.clone()));
        }
        let mut schedule = self.schedule.take().unwrap_or_else(RetrySchedule::new);
        let verdict = self.attempt(std::slice::from_ref(request), &mut schedule, timeout);
        self.schedule = Some(schedule);
        match verdict? {
            Verdict::Granted(fences) => {
                self.is_granted = true;
                Ok(AcquireOutcome::granted(fences))
            }
            Verdict::Held { busy: held, .. } | Verdict::Split(held) => {
                self.listen(request)?;
                Ok(busy(held))
            }
        }
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        match (&mut self.schedule, &mut self.members) {
            (Some(schedule), Some(members)) => {
                // The next attempt checks that the members are independent.
                let _ = members.take_events();
                schedule.wait(&mut members.subscriptions, timeout)
            }
            _ => Ok(true),
        }
    }

    fn settle(&mut self) {
        if std::mem::take(&mut self.is_granted) {
            self.schedule = None;
            if let Some(members) = &mut self.members {
                members.hear_about(None);
            }
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        let members = self.members()?;
        let asked = request.clone();
        let sent = BootTime::now();
        let renew = move |member: &mut Member, timeout: &Timeout| member.renew(&asked, fence, timeout);
        let mut round = members.ask(all, timeout.until, true, renew);
        round.decide(timeout, majority::is_renewed)?;
        let renewal = majority::renewed(&mut round.replies);
        if let Some(Renewal::Extended | Renewal::Healed) = renewal
            && fence.is_some()
        {
            // A member on which nobody holds the lock acquires it again, so that a server that comes back counts. One
            // that takes longer than the others is not waited for, as there may be many locks to renew.
            round.linger(BootTime::now().since(sent).min(request.ttl.duration() / 20));
            let is_free = |index: usize| matches!(round.replies[index], Reply::Answer(Renewal::Lost(None)));
            let again = Request { min_hold: Duration::ZERO, ..request.clone() };
            let until = Deadline::after(attempt_time(request.ttl));
            if (0..round.replies.len()).any(is_free) {
                let acquire =
                    move |member: &mut Member, timeout: &Timeout| member.acquire_again(&again, timeout);
                let _nobody_waits = members.ask(is_free, until, true, acquire);
            }
        }
        round.judge(|_| renewal)
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>> {
        let call = script::release(keys, token).arg(new_hint());
        let released = |replies: &[Reply<Released>]| majority::released(replies, keys.len());
        let round = self.release_everywhere(call, timeout, |replies| released(replies).is_some())?;
        round.judge(|replies| released(replies))
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        (self.schedule, self.is_granted) = (None, false);
        let (Some(members), Some(first)) = (&mut self.members, requests.first()) else { return Ok(()) };
        members.hear_about(None);
        let is_sure = |replies: &[Reply<Released>]| {
            count(replies, |released| *released != Released::Sent) >= majority(replies.len())
        };
        let call = script::cancel(first, requests).arg(new_hint());
        let round = self.release_everywhere(call, timeout, is_sure)?;
        round.judge(|replies| is_sure(replies).then_some(()))
    }

    fn check(&mut self, key: &Key, token: &OwnerToken, timeout: &Timeout) -> Result<Option<Duration>> {
        let call = script::check(key, token);
        let check = move |member: &mut Member, timeout: &Timeout| call.run(&mut member.server, timeout);
        let mut round = self.members()?.ask(all, timeout.until, true, check);
        round.decide(timeout, |replies| majority::left(replies).is_some())?;
        round.judge(|replies| majority::left(replies))
    }

    fn record(&mut self, key: &Key, run: Option<&RunRecord>, keep: u8, timeout: &Timeout) -> Result<()> {
        let Some(command) = super::history::record(key, run, keep) else {
            return Ok(());
        };
        let record = move |member: &mut Member, timeout: &Timeout| {
            let reply = member.server.query(&command, timeout)?;
            accepted(reply, member.server.name()).map(drop)
        };
        let mut round = self.members()?.ask(all, timeout.until, false, record);
        round.decide(timeout, is_quorate)
    }
}

impl StoreAdmin for Quorum {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
        let asked = keys.to_vec();
        let look = move |member: &mut Member, timeout: &Timeout| {
            survey(&mut member.server, &asked, timeout)?.complete()
        };
        let mut round = self.members()?.ask(all, timeout.until, true, look);
        round.decide(timeout, is_quorate)?;
        // A member that answered early may not know a lock that was just acquired.
        round.gather(&timeout.at_most(STATUS_GRACE), status::is_settled)?;
        round.judge(|replies| is_quorate(replies).then(|| Survey::of_all(status::status(keys, replies))))
    }

    fn history(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Vec<History>> {
        let asked = keys.to_vec();
        let look =
            move |member: &mut Member, timeout: &Timeout| histories(&mut member.server, &asked, timeout);
        let mut round = self.members()?.ask(all, timeout.until, true, look);
        round.decide(timeout, is_quorate)?;
        // A run may be known to one that is slow.
        round.gather(&timeout.at_most(STATUS_GRACE), |_| false)?;
        round.judge(|replies| is_quorate(replies).then(|| history::merged(replies)))
    }

    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken> {
        let (key, scope, by, hint) = (key.clone(), scope.clone(), by.clone(), new_hint());
        let break_lock = move |member: &mut Member, timeout: &Timeout| {
            member.break_lock(&key, &scope, &by, &hint, timeout)
        };
        let mut round = self.members()?.ask(all, timeout.until, false, break_lock);
        round.decide(timeout, is_quorate)?;
        round.linger(LINGER);
        round.judge(status::broken)
    }
}
