//! One attempt to take locks on a majority.

use std::sync::Arc;
use std::time::Duration;

use super::broadcast::Round;
use super::majority::{self, Reply, Taken, failure, is_quorate, is_settled, majority, votes};
use super::member::MemberEvent;
use super::release::cancel_call;
use super::{LINGER, Quorum, known, timeout};
use crate::clock::{BootTime, Deadline};
use crate::lock::{FencingToken, Request, StoreError, Timeout};
use crate::store::redis::script::{self, Call, number};
use crate::store::redis::take_call;

impl Quorum {
    /// Asks every server once. What a minority granted, or may have granted, is given back. A majority that
    /// answered and is divided waits no longer than `grace` for the others.
    pub(super) fn ask_for(
        &mut self,
        requests: &[Request],
        grace: Duration,
        patience: &Timeout,
    ) -> Result<Taken, StoreError> {
        let Some(first) = requests.first() else { return Ok(Taken::Granted(Vec::new())) };
        let is_first = !std::mem::replace(&mut self.has_taken, true);
        let sent = BootTime::now();
        let mut round = self.ask(first, requests, patience)?;
        let decided = decide(&mut round, grace, is_first, patience);
        let may_hold: Vec<bool> =
            round.replies.iter().map(|reply| !matches!(reply, Reply::Answer(MemberEvent::Busy(_)))).collect();
        let taken = decided.and_then(|()| self.judge(requests, round, patience));
        if !matches!(taken, Ok(Taken::Granted(_))) {
            // As long as the servers need, not one that hangs: the process may end next.
            let enough = (BootTime::now().since(sent) * 2).max(LINGER).min(timeout(first.ttl));
            let call = Arc::new(cancel_call(requests));
            self.give_back(&call, &may_hold, Deadline::after(enough))?.linger(enough);
        }
        taken
    }

    fn ask(
        &mut self,
        first: &Request,
        requests: &[Request],
        patience: &Timeout,
    ) -> Result<Round<MemberEvent>, StoreError> {
        let waits = self.contender.is_some();
        let council = self.council()?;
        let until = patience.until.min(Deadline::after(timeout(first.ttl)));
        let listen: Vec<bool> = council.ears.iter().map(|ear| waits && ear.is_none()).collect();
        // One call for all: their fencing tokens are of one clock.
        let call = take_call(first, requests, "once", "");
        let (asked, all) = (requests.to_vec(), vec![true; listen.len()]);
        Ok(council.ask_some(until, true, &all, move |index, member, patience| {
            member.take(&call, &asked, listen[index], patience)
        }))
    }

    /// What the answers mean.
    fn judge(
        &mut self,
        requests: &[Request],
        round: Round<MemberEvent>,
        patience: &Timeout,
    ) -> Result<Taken, StoreError> {
        let council = self.council()?;
        council.note_findings()?;
        match majority::taken(&round.replies) {
            Some(Taken::Granted(fences)) => {
                self.raise(requests, &fences, &round, patience)?;
                Ok(Taken::Granted(fences))
            }
            taken => known(taken, round, council),
        }
    }

    /// Where the majority's fencing tokens differ, the highest is written back to a majority before it is used.
    fn raise(
        &mut self,
        requests: &[Request],
        fences: &[FencingToken],
        round: &Round<MemberEvent>,
        patience: &Timeout,
    ) -> Result<(), StoreError> {
        let differs = |reply: &Reply<MemberEvent>| matches!(reply, Reply::Answer(MemberEvent::Granted(own)) if own != fences);
        let whom: Vec<bool> = round.replies.iter().map(differs).collect();
        if !whom.contains(&true) {
            return Ok(());
        }
        let equal = votes(&round.replies, |told| matches!(told, MemberEvent::Granted(own) if own == fences));
        let keys = requests.iter().map(|request| &request.key);
        let call = Call::of_several(&script::RAISE, keys, requests.first().map(|request| &request.token));
        let call = fences.iter().fold(call, Call::arg);
        let council = self.council()?;
        let mut raised = council.ask_some(round.until, true, &whom, move |_, member, patience| {
            member.redis.call(&call, patience).map(|reply| number(Some(&reply)) == 1)
        });
        let is_enough =
            |replies: &[Reply<bool>]| equal + votes(replies, |raised| *raised) >= majority(replies.len());
        raised.decide(patience, is_enough)?;
        if is_enough(&raised.replies) { Ok(()) } else { Err(failure(raised.replies, council.names())) }
    }
}

/// Waits until the servers have decided, and a little longer for what is good to know.
fn decide(
    round: &mut Round<MemberEvent>,
    grace: Duration,
    is_first: bool,
    patience: &Timeout,
) -> Result<(), StoreError> {
    let begin = BootTime::now();
    // Two of four may refuse: then it is not granted, but who holds it is not known yet.
    round.decide(patience, |replies| is_settled(replies, |_| true))?;
    let until = round.until.min(Deadline::after(grace));
    let is_granted = |told: &MemberEvent| matches!(told, MemberEvent::Granted(_));
    round.gather(&Timeout { until, ..*patience }, |replies| is_settled(replies, is_granted))?;
    if !is_quorate(&round.replies) {
        // Who says why there is no majority has time for that.
        round.linger(LINGER);
    } else if is_first {
        // Two names of one server are to be seen before the job starts, if both answer.
        round.linger((BootTime::now().since(begin) / 4).min(LINGER));
    }
    Ok(())
}
