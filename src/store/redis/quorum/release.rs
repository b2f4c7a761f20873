//! Releasing on all servers, or on some.

use std::sync::Arc;

use super::broadcast::Round;
use super::majority::Reply;
use super::member::Released;
use super::{LINGER, Quorum};
use crate::clock::{BootTime, Deadline};
use crate::lock::{Result, Timeout};
use crate::store::redis::script::ScriptCall;

impl Quorum {
    /// Tells some servers to release locks.
    pub(super) fn release_on(
        &mut self,
        call: &Arc<ScriptCall>,
        which: &[bool],
        until: Deadline,
    ) -> Result<Round<Released>> {
        let (call, has_asked) = (Arc::clone(call), self.has_asked);
        self.members()?.ask_some(until, false, which, move |_, member, timeout| {
            match has_asked && member.is_untouched() {
                true => Ok(Released::NeverAsked),
                false => member.release(&call, timeout),
            }
        })
    }

    /// Tells all servers, and waits until the outcome is sure.
    pub(super) fn release_everywhere(
        &mut self,
        call: ScriptCall,
        timeout: &Timeout,
        is_sure: impl Fn(&[Reply<Released>]) -> bool,
    ) -> Result<Round<Released>> {
        let (call, begun) = (Arc::new(call), BootTime::now());
        let all = vec![true; self.addresses.len()];
        let mut round = self.release_on(&call, &all, timeout.until)?;
        round.decide(timeout, &is_sure)?;
        // The process may end next, so the other servers get the release as well. To one that hung in the acquisition
        // it is sent at once.
        round.linger(LINGER.max(BootTime::now().since(begun)));
        let is_sent = |reply: &Reply<Released>| matches!(reply, Reply::Answer(Released::Sent));
        let sent: Vec<bool> = round.replies.iter().map(is_sent).collect();
        if is_sure(&round.replies) || !sent.contains(&true) {
            return Ok(round);
        }
        // Not all of them hang: a server may just not have answered a renewal yet.
        let mut again =
            self.members()?.ask_some(timeout.until, false, &sent, move |_, member, timeout| {
                member.release_again(&call, timeout)
            })?;
        again.add(round);
        again.decide(timeout, &is_sure)?;
        Ok(again)
    }
}
