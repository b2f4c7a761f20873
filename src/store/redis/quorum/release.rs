//! Giving back on all servers, or on some.

use std::sync::Arc;

use super::broadcast::Round;
use super::majority::Reply;
use super::member::Returned;
use super::{LINGER, Quorum};
use crate::clock::{BootTime, Deadline};
use crate::lock::{Request, StoreError, Timeout};
use crate::store::redis::QueuePlace;
use crate::store::redis::script::{self, Call};

/// Gives back what was taken in vain. With one more argument, a hint, those who wait are told.
pub fn cancel_call(requests: &[Request]) -> Call {
    let keys = requests.iter().map(|request| &request.key);
    let token = requests.first().map(|request| &request.token);
    let place = requests.first().map(QueuePlace::place).unwrap_or_default();
    Call::of_several(&script::RELEASE, keys, token).arg(place)
}

impl Quorum {
    /// Tells some servers to give locks back.
    pub(super) fn give_back(
        &mut self,
        call: &Arc<Call>,
        whom: &[bool],
        until: Deadline,
    ) -> Result<Round<Returned>, StoreError> {
        let (call, has_taken) = (Arc::clone(call), self.has_taken);
        Ok(self.council()?.ask_some(until, false, whom, move |_, member, patience| {
            match has_taken && member.is_untouched() {
                true => Ok(Returned::Nothing),
                false => member.give_back(&call, patience),
            }
        }))
    }

    /// Tells all servers, and waits until it is sure what came of it.
    pub(super) fn give_back_everywhere(
        &mut self,
        call: Call,
        patience: &Timeout,
        is_sure: impl Fn(&[Reply<Returned>]) -> bool,
    ) -> Result<Round<Returned>, StoreError> {
        let (call, begun) = (Arc::new(call), BootTime::now());
        let all = vec![true; self.members.len()];
        let mut round = self.give_back(&call, &all, patience.until)?;
        round.decide(patience, &is_sure)?;
        // The process may end next: the others are to be told as well. One that hangs since the take counts as told
        // when it was sent, which is at once.
        round.linger(LINGER.max(BootTime::now().since(begun)));
        let is_told = |reply: &Reply<Returned>| matches!(reply, Reply::Answer(Returned::Sent));
        let told: Vec<bool> = round.replies.iter().map(is_told).collect();
        if is_sure(&round.replies) || !told.contains(&true) {
            return Ok(round);
        }
        // Not all of them hang: a server may just not have answered a renewal yet.
        let mut again = self.council()?.ask_some(patience.until, false, &told, move |_, member, patience| {
            member.give_back_again(&call, patience)
        });
        again.add(round);
        again.decide(patience, &is_sure)?;
        Ok(again)
    }
}
