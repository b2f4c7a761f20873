//! One attempt to acquire locks on a majority.

use std::sync::Arc;
use std::time::Duration;

use super::broadcast::Round;
use super::majority::{self, Reply, Verdict, count, failure, is_quorate, is_settled, majority};
use super::member::Vote;
use super::{LINGER, Quorum, attempt_time, known};
use crate::clock::{BootTime, Deadline};
use crate::lock::{FencingToken, Key, Request, Result, Timeout};
use crate::store::redis::script::acquire::{self, Queueing};
use crate::store::redis::script::{raise, release};

impl Quorum {
    /// Asks every member once. What a minority granted, or may have granted, is released. A divided majority is waited for
    /// the other members no longer than `grace`.
    pub(super) fn attempt(
        &mut self,
        requests: &[Request],
        grace: Duration,
        timeout: &Timeout,
    ) -> Result<Verdict> {
        let Some(first) = requests.first() else { return Ok(Verdict::Granted(Vec::new())) };
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        let sent = BootTime::now();
        let mut round = self.ask(first, requests, timeout)?;
        let decided = decide(&mut round, grace, is_first, timeout);
        let may_hold: Vec<bool> =
            round.replies.iter().map(|reply| !matches!(reply, Reply::Answer(Vote::Busy(_)))).collect();
        let verdict = decided.and_then(|()| self.judge(requests, round, timeout));
        if !matches!(verdict, Ok(Verdict::Granted(_))) {
            // The time that the servers need, not one that hangs: the process may end next.
            let enough = (BootTime::now().since(sent) * 2).max(LINGER).min(attempt_time(first.ttl));
            let keys: Vec<Key> = requests.iter().map(|request| request.key.clone()).collect();
            let call = Arc::new(release::cancel_call(first, &keys));
            self.release_on(&call, &may_hold, Deadline::after(enough))?.linger(enough);
        }
        verdict
    }

    fn ask(&mut self, first: &Request, requests: &[Request], timeout: &Timeout) -> Result<Round<Vote>> {
        let waits = self.schedule.is_some();
        let members = self.members()?;
        let until = timeout.until.min(Deadline::after(attempt_time(first.ttl)));
        let listen: Vec<bool> = members.subscriptions.iter().map(|open| waits && open.is_none()).collect();
        // One call for all members, so that their fencing tokens come from one clock.
        let call = acquire::call(first, requests, Queueing::No, "");
        let (asked, all) = (requests.to_vec(), vec![true; listen.len()]);
        members.ask_some(until, true, &all, move |index, member, timeout| {
            member.acquire(&call, &asked, listen[index], timeout)
        })
    }

    /// What the answers mean.
    fn judge(&mut self, requests: &[Request], round: Round<Vote>, timeout: &Timeout) -> Result<Verdict> {
        let members = self.members()?;
        members.take_events()?;
        match majority::verdict(&round.replies) {
            Some(Verdict::Granted(fences)) => {
                self.raise(requests, &fences, &round, timeout)?;
                Ok(Verdict::Granted(fences))
            }
            verdict => known(verdict, round, members),
        }
    }

    /// Where the majority's fencing tokens differ, the highest is written back to a majority before it is used.
    fn raise(
        &mut self,
        requests: &[Request],
        fences: &[FencingToken],
        round: &Round<Vote>,
        timeout: &Timeout,
    ) -> Result<()> {
        let differs =
            |reply: &Reply<Vote>| matches!(reply, Reply::Answer(Vote::Granted(own)) if own != fences);
        let which: Vec<bool> = round.replies.iter().map(differs).collect();
        if !which.contains(&true) {
            return Ok(());
        }
        let equal = count(&round.replies, |vote| matches!(vote, Vote::Granted(own) if own == fences));
        let Some(first) = requests.first() else { return Ok(()) };
        let call = raise::call(requests.iter().map(|request| &request.key), &first.token, fences);
        let members = self.members()?;
        let mut raised = members.ask_some(round.until, true, &which, move |_, member, timeout| {
            call.run(&mut member.server, timeout).map(raise::decode)
        })?;
        let is_enough =
            |replies: &[Reply<bool>]| equal + count(replies, |raised| *raised) >= majority(replies.len());
        raised.decide(timeout, is_enough)?;
        if is_enough(&raised.replies) { Ok(()) } else { Err(failure(raised.replies, members.names())) }
    }
}

/// Waits until the members have decided, and a little longer for what is good to know.
fn decide(round: &mut Round<Vote>, grace: Duration, is_first: bool, timeout: &Timeout) -> Result<()> {
    let begin = BootTime::now();
    // When two of four refuse, the lock is not granted, but its holder is not known yet.
    round.decide(timeout, |replies| is_settled(replies, |_| true))?;
    let until = round.until.min(Deadline::after(grace));
    let is_granted = |vote: &Vote| matches!(vote, Vote::Granted(_));
    round.gather(&Timeout { until, ..*timeout }, |replies| is_settled(replies, is_granted))?;
    if !is_quorate(&round.replies) {
        // The members that say why there is no majority get the time for that.
        round.linger(LINGER);
    } else if is_first {
        // Two names of one server show before the job starts, if both answer.
        round.linger((BootTime::now().since(begin) / 4).min(LINGER));
    }
    Ok(())
}
