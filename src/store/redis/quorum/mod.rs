//! The Redlock algorithm: several independent servers, of which a majority decides.
//!
//! All are asked at once, each by a thread of its own, and an answer counts as soon as no other can change what
//! the majority said: a server that hangs or is slow costs nothing. See "Distributed Locks with Redis" in the
//! Redis documentation.

mod broadcast;
mod contention;
mod identity;
mod majority;
mod member;
mod release;
mod status;
mod take;

use std::time::Duration;

use self::broadcast::{Council, Round};
use self::contention::Contender;
use self::majority::{Reply, Taken, failure, is_quorate, majority, votes};
use self::member::Returned;
use self::release::cancel_call;
use super::Address;
use super::script::{self, Call};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, Broken, Busy, Capabilities, FencingToken, Key, LockStatus, OwnerToken, Renewal, Request,
    Store, StoreAdmin, StoreError, Survey, Timeout, Ttl,
};

/// The store on several servers. Its threads start with the first question.
pub struct Quorum {
    members: Vec<Address>,
    /// Nobody before the first question: processes that are to be forked are forked before.
    council: Option<Council>,
    contender: Option<Contender>,
    has_taken: bool,
    /// The last request for a lock was granted, and nothing was made of the time since.
    is_granted: bool,
}

/// Of several servers of which a majority decides.
pub const CAPABILITIES: Capabilities = Capabilities {
    semaphore: Err(
        "a quorum cannot be used: --permits needs one server: a majority of per-server counts does not bound the total",
    ),
    queue: false,
    replicas: Err("the servers of a quorum are independent; none of them may be a replica"),
    ..super::CAPABILITIES
};

/// How long one take waits for a server; small against the TTL, but long enough to connect.
const LEAST_TIMEOUT: Duration = Duration::from_millis(100);
/// So long a take that does not wait tries to decide split votes.
const MOST_SPLITS: Duration = Duration::from_secs(1);
/// So long the majority that answered is not taken for all that is known of a lock.
const SETTLING: Duration = Duration::from_secs(1);
/// What is given back is sent at once where a server hangs, and answered at once where it does not.
const LINGER: Duration = Duration::from_millis(50);

impl Quorum {
    /// A store that connects when it is asked for something.
    pub fn new(members: Vec<Address>) -> Quorum {
        Quorum { members, council: None, contender: None, has_taken: false, is_granted: false }
    }

    fn council(&mut self) -> Result<&mut Council, StoreError> {
        let council = match self.council.take() {
            Some(council) => council,
            None => Council::start(&self.members)?,
        };
        Ok(self.council.insert(council))
    }

    /// Hears the hints also of those servers that were too slow for it while they were asked.
    fn listen(&mut self, request: &Request) -> Result<(), StoreError> {
        let council = self.council()?;
        let deaf: Vec<bool> = council.ears.iter().map(Option::is_none).collect();
        let (key, until) = (request.key.clone(), Deadline::after(timeout(request.ttl)));
        let _nobody_waits = council.ask_some(until, true, &deaf, move |_, member, patience| {
            member.listen(&key, patience);
            Ok(())
        });
        Ok(())
    }
}

fn timeout(ttl: Ttl) -> Duration {
    (ttl.duration() / 8).max(LEAST_TIMEOUT)
}

/// Nobody stands in line.
fn unordered(busy: Busy) -> Busy {
    Busy { ahead: None, ..busy }
}

/// What those who wait hear of one release, from each server the same.
fn new_hint() -> String {
    fastrand::u64(..).to_string()
}

/// The answer, where there is a majority for one.
fn known<T, R>(answer: Option<T>, round: Round<R>, council: &Council) -> Result<T, StoreError> {
    answer.ok_or_else(|| failure(round.replies, council.names()))
}

impl Store for Quorum {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], patience: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let ttl = requests.first().map_or(Duration::ZERO, |request| request.ttl.duration());
        let until = patience.until.min(Deadline::after((ttl / 4).min(MOST_SPLITS)));
        // When all give back what they got, one of them is to get it in the end.
        let mut contender = Contender::new();
        loop {
            let sent = BootTime::now();
            let taken = self.ask_for(requests, contender.grace(), patience)?;
            contender.note(&taken, BootTime::now().since(sent));
            match taken {
                Taken::Granted(fences) => return Ok(AcquireOutcome::granted(fences)),
                Taken::Held { busy, .. } => return Ok(AcquireOutcome::Busy(unordered(busy))),
                Taken::Split(busy) => {
                    if !contender.wait(&mut [], &Timeout { until, interrupt: patience.interrupt })? {
                        return Ok(AcquireOutcome::Busy(unordered(busy)));
                    }
                }
            }
        }
    }

    fn enqueue(&mut self, request: &Request, patience: &Timeout) -> Result<AcquireOutcome, StoreError> {
        if self.contender.is_none() {
            self.council()?.attend_to(Some(request.key.clone()));
        }
        let grace = self.contender.get_or_insert_with(Contender::new).grace();
        let sent = BootTime::now();
        let taken = self.ask_for(std::slice::from_ref(request), grace, patience)?;
        if let Some(contender) = &mut self.contender {
            contender.note(&taken, BootTime::now().since(sent));
        }
        match taken {
            Taken::Granted(fences) => {
                self.is_granted = true;
                Ok(AcquireOutcome::granted(fences))
            }
            Taken::Held { busy, .. } | Taken::Split(busy) => {
                self.listen(request)?;
                Ok(AcquireOutcome::Busy(unordered(busy)))
            }
        }
    }

    fn wait(&mut self, patience: &Timeout) -> Result<bool, StoreError> {
        match (&mut self.contender, &mut self.council) {
            (Some(contender), Some(council)) => {
                // What one server says of itself is checked when it is asked for a lock.
                let _ = council.note_findings();
                contender.wait(&mut council.ears, patience)
            }
            _ => Ok(true),
        }
    }

    fn on_idle(&mut self) {
        if std::mem::take(&mut self.is_granted) {
            self.contender = None;
            if let Some(council) = &mut self.council {
                council.attend_to(None);
            }
        }
        script::RELEASE.make_ready();
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let council = self.council()?;
        let asked = request.clone();
        let sent = BootTime::now();
        let mut round =
            council.ask(patience.until, true, move |member, patience| member.renew(&asked, fence, patience));
        round.decide(patience, majority::is_renewed)?;
        let renewal = majority::renewed(&mut round.replies);
        if let Some(Renewal::Extended | Renewal::Healed) = renewal
            && fence.is_some()
        {
            // Where nobody holds it, it is taken anew: so a server that comes back counts again. One that takes longer
            // than the others is not waited for, as there may be many locks to be renewed.
            round.linger(BootTime::now().since(sent).min(request.ttl.duration() / 20));
            let is_free = |reply: &Reply<Renewal>| matches!(reply, Reply::Answer(Renewal::Lost(None)));
            let whom: Vec<bool> = round.replies.iter().map(is_free).collect();
            let again = Request { min_hold: Duration::ZERO, ..request.clone() };
            let until = Deadline::after(timeout(request.ttl));
            if whom.contains(&true) {
                let _nobody_waits = council.ask_some(until, true, &whom, move |_, member, patience| {
                    member.take_again(&again, patience);
                    Ok(())
                });
            }
        }
        known(renewal, round, council)
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Vec<bool>, StoreError> {
        let call = Call::of_several(&script::RELEASE, keys, Some(token)).arg("").arg(new_hint());
        let is_known = |replies: &[Reply<Returned>]| majority::released(replies, keys.len()).is_some();
        let round = self.give_back_everywhere(call, patience, is_known)?;
        known(majority::released(&round.replies, keys.len()), round, self.council()?)
    }

    fn cancel(&mut self, requests: &[Request], patience: &Timeout) -> Result<(), StoreError> {
        (self.contender, self.is_granted) = (None, false);
        let Some(council) = &mut self.council else { return Ok(()) };
        council.attend_to(None);
        let is_sure = |replies: &[Reply<Returned>]| {
            votes(replies, |returned| *returned != Returned::Sent) >= majority(replies.len())
        };
        let round = self.give_back_everywhere(cancel_call(requests).arg(new_hint()), patience, is_sure)?;
        match is_sure(&round.replies) {
            true => Ok(()),
            false => Err(failure(round.replies, self.council()?.names())),
        }
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Option<Duration>, StoreError> {
        let (key, token) = (key.clone(), token.clone());
        let council = self.council()?;
        let mut round = council
            .ask(patience.until, true, move |member, patience| member.redis.check(&key, &token, patience));
        round.decide(patience, |replies| majority::left(replies).is_some())?;
        known(majority::left(&round.replies), round, council)
    }

    fn status(&mut self, keys: &[Key], patience: &Timeout) -> Result<Vec<LockStatus>, StoreError> {
        self.survey(keys, patience)?.complete()
    }
}

impl StoreAdmin for Quorum {
    fn survey(&mut self, keys: &[Key], patience: &Timeout) -> Result<Survey, StoreError> {
        let asked = keys.to_vec();
        let council = self.council()?;
        let mut round =
            council.ask(patience.until, true, move |member, patience| member.redis.status(&asked, patience));
        round.decide(patience, is_quorate)?;
        // A lock just taken may be unknown to one of those who answered first.
        let until = patience.until.min(Deadline::after(SETTLING));
        round.gather(&Timeout { until, ..*patience }, status::is_settled)?;
        match is_quorate(&round.replies) {
            true => Ok(Survey::of_all(status::status(keys, round.replies))),
            false => Err(failure(round.replies, council.names())),
        }
    }

    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        patience: &Timeout,
    ) -> Result<Broken, StoreError> {
        let (key, token, hint) = (key.clone(), token.cloned(), new_hint());
        let council = self.council()?;
        let mut round = council.ask(patience.until, false, move |member, patience| {
            let broken = member.redis.break_lock(&key, token.as_ref(), patience)?;
            if let Broken::Freed(_) = broken {
                member.hint(&key, &hint, patience);
            }
            Ok(broken)
        });
        round.decide(patience, is_quorate)?;
        round.linger(LINGER);
        known(status::broken(&mut round.replies), round, council)
    }
}
