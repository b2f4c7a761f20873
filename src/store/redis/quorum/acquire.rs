//! One attempt to acquire locks on a majority.

use std::sync::Arc;
use std::time::Duration;

use super::broadcast::Round;
use super::majority::{self, Reply, Verdict, count, is_quorate, is_settled, majority};
use super::member::{Member, Vote};
use super::retry_schedule::RetrySchedule;
use super::{LINGER, Quorum, all, attempt_time};
use crate::clock::{BootTime, Deadline};
use crate::lock::{FencingToken, Request, Result, Timeout};
use crate::store::redis::script::{self, Queueing};

impl Quorum {
    /// Asks every member once. Locks that a minority granted, or may have granted, are released. A divided majority is
    /// waited for the other members no longer than the grace of the schedule, which takes note of the verdict.
    pub(super) fn attempt(
        &mut self,
        requests: &[Request],
        schedule: &mut RetrySchedule,
        timeout: &Timeout,
    ) -> Result<Verdict> {
        let Some(first) = requests.first() else { return Ok(Verdict::Granted(Vec::new())) };
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        let sent = BootTime::now();
        let mut round = self.ask(first, requests, timeout)?;
        let decided = decide(&mut round, schedule.grace(), is_first, timeout);
        let is_busy = |reply: &_| matches!(reply, Reply::Answer(Vote::Busy(_)));
        let may_hold: Vec<bool> = round.replies.iter().map(|reply| !is_busy(reply)).collect();
        let verdict = decided.and_then(|()| self.judge(requests, round, timeout));
        if !matches!(verdict, Ok(Verdict::Granted(_))) {
            // The time that the servers need, not one that hangs: the process may end next.
            let enough = (BootTime::now().since(sent) * 2).max(LINGER).min(attempt_time(first.ttl));
            let call = Arc::new(script::cancel(first, requests));
            self.release_on(&call, |index| may_hold[index], Deadline::after(enough))?.linger(enough);
        }
        let verdict = verdict?;
        schedule.note(&verdict, BootTime::now().since(sent));
        Ok(verdict)
    }

    fn ask(&mut self, first: &Request, requests: &[Request], timeout: &Timeout) -> Result<Round<Vote>> {
        let members = self.members()?;
        let until = timeout.until.min(Deadline::after(attempt_time(first.ttl)));
        let listen: Vec<bool> =
            (0..members.subscriptions.len()).map(|index| members.is_deaf(index)).collect();
        // One call for all members, so that their fencing tokens come from one clock.
        let call = script::acquire(first, requests, Queueing::No, "").in_quorum();
        let acquire = move |member: &mut Member, timeout: &Timeout| {
            member.acquire(&call, listen[member.index], timeout)
        };
        Ok(members.ask(all, until, true, acquire))
    }

    /// The meaning of the answers.
    fn judge(&mut self, requests: &[Request], round: Round<Vote>, timeout: &Timeout) -> Result<Verdict> {
        self.members()?.take_events()?;
        let verdict = majority::verdict(&round.replies);
        if let Some(Verdict::Granted(fences)) = &verdict {
            self.raise(requests, fences, &round, timeout)?;
        }
        round.judge(|_| verdict)
    }

    /// Writes the highest fencing token back to a majority before it is used, where the members gave different ones.
    fn raise(
        &mut self,
        requests: &[Request],
        fences: &[FencingToken],
        round: &Round<Vote>,
        timeout: &Timeout,
    ) -> Result<()> {
        let differs = |index: usize| matches!(&round.replies[index], Reply::Answer(Vote::Granted(own)) if own != fences);
        let Some(first) = requests.first().filter(|_| (0..round.replies.len()).any(differs)) else {
            return Ok(());
        };
        let equal = count(&round.replies, |vote| matches!(vote, Vote::Granted(own) if own == fences));
        let call = script::raise(first, requests, fences);
        let raise = move |member: &mut Member, timeout: &Timeout| call.run(&mut member.server, timeout);
        let mut raised = self.members()?.ask(differs, round.until, true, raise);
        let is_enough =
            |replies: &[Reply<bool>]| equal + count(replies, |raised| *raised) >= majority(replies.len());
        raised.decide(timeout, is_enough)?;
        raised.judge(|replies| is_enough(replies).then_some(()))
    }
}

/// Waits until the members have decided, and a little longer for what is good to know.
fn decide(round: &mut Round<Vote>, grace: Duration, is_first: bool, timeout: &Timeout) -> Result<()> {
    let begin = BootTime::now();
    // When two of four refuse, the lock is not granted, but its holder is not known yet.
    round.decide(timeout, |replies| is_settled(replies, |_| true))?;
    let is_granted = |vote: &Vote| matches!(vote, Vote::Granted(_));
    round.gather(&timeout.before(round.until).at_most(grace), |replies| is_settled(replies, is_granted))?;
    if !is_quorate(&round.replies) {
        // The members that say why a majority is missing get the time for that.
        round.linger(LINGER);
    } else if is_first {
        // Two names of one server show before the job starts, if both answer.
        round.linger((BootTime::now().since(begin) / 4).min(LINGER));
    }
    Ok(())
}
