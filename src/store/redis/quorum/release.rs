//! Releasing on all servers, or on some.

use std::sync::Arc;

use super::broadcast::Round;
use super::majority::Reply;
use super::member::{Member, Released};
use super::{LINGER, Quorum, all};
use crate::clock::{BootTime, Deadline};
use crate::lock::{Result, Timeout};
use crate::store::redis::script::ReleaseCall;

impl Quorum {
    pub(super) fn release_on(
        &mut self,
        call: &Arc<ReleaseCall>,
        which: impl Fn(usize) -> bool,
        until: Deadline,
    ) -> Result<Round<Released>> {
        let (call, has_asked) = (Arc::clone(call), self.has_asked);
        Ok(self.members()?.ask(which, until, false, move |member, timeout| {
            match has_asked && !member.server.was_asked {
                true => Ok(Released::NeverAsked),
                false => member.release(&call, timeout),
            }
        }))
    }

    /// Tells all servers, and waits until the outcome is sure.
    pub(super) fn release_everywhere(
        &mut self,
        call: ReleaseCall,
        timeout: &Timeout,
        is_sure: impl Fn(&[Reply<Released>]) -> bool,
    ) -> Result<Round<Released>> {
        let (call, begun) = (Arc::new(call), BootTime::now());
        let mut round = self.release_on(&call, all, timeout.until)?;
        round.decide(timeout, &is_sure)?;
        // The process may end next, so the other servers get the release as well. To one that hung in the acquisition
        // it is sent at once.
        round.linger(LINGER.max(BootTime::now().since(begun)));
        let is_sent = |index: usize| matches!(round.replies[index], Reply::Answer(Released::Sent));
        if is_sure(&round.replies) || !(0..round.replies.len()).any(is_sent) {
            return Ok(round);
        }
        // Not all of them hang: a server may just not have answered a renewal yet.
        let release_again =
            move |member: &mut Member, timeout: &Timeout| member.release_again(&call, timeout);
        let mut again = self.members()?.ask(is_sent, timeout.until, false, release_again);
        again.add(round);
        again.decide(timeout, &is_sure)?;
        Ok(again)
    }
}
