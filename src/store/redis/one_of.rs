//! One lock of several: a request stands in all of their queues, with one ticket, until one of them is its own.

use std::slice::from_ref;

use super::queue_place::QueuePlace;
use super::routing::Routing;
use super::script::{self, OneReply, Queueing, ReleaseCall};
use super::store::Redis;
use crate::lock::{OneOutcome, Request, Result, Store, StoreError, Timeout};

impl Redis {
    pub(super) fn one_of(
        &mut self,
        requests: &[Request],
        is_queued: bool,
        timeout: &Timeout,
    ) -> Result<OneOutcome> {
        if self.by_slot(requests, |request| &request.key).len() > 1 {
            let why = "the keys are in different slots of the cluster, and no script can use them together; give them one \
                       hash tag, such as {phones}1 and {phones}2";
            return Err(StoreError::Unusable { store: self.topology.name().to_owned(), why: why.to_owned() });
        }
        if !is_queued {
            return self.one_of_now(requests, timeout);
        }
        let mut place = self.place.take().unwrap_or_else(|| QueuePlace::new(requests.to_vec()));
        let answer = self.enqueue_for_one(&mut place, timeout);
        self.place = Some(place);
        answer
    }

    fn one_of_now(&mut self, requests: &[Request], timeout: &Timeout) -> Result<OneOutcome> {
        self.topology.await_releases(requests, timeout)?;
        let call = script::acquire_one(&requests[0], requests, Queueing::No, "");
        let busy = match call.run_on_primary(&mut self.topology, timeout)?? {
            OneReply::Granted { place, fence } => {
                self.expect_replicas(from_ref(&requests[place]), timeout)?;
                let others = self.cancel_others(requests, place);
                self.release_behind(&others, timeout);
                return Ok(OneOutcome::granted(place, fence));
            }
            OneReply::Busy(replies) => replies,
            // Said to waiters only.
            OneReply::DataLost { .. } => Vec::new(),
        };
        if self.topology.servers().any(|server| server.in_flight.has_requests()) {
            // An earlier attempt has no answer yet, and must not acquire a lock later.
            let _ = Store::cancel(self, requests, timeout);
        }
        Ok(OneOutcome::busy(busy.into_iter().map(|reply| reply.busy), requests))
    }

    fn enqueue_for_one(&mut self, place: &mut QueuePlace, timeout: &Timeout) -> Result<OneOutcome> {
        let is_granted = |reply: &OneReply| matches!(reply, OneReply::Granted { .. });
        let reply = self.enqueue_at(place, script::acquire_one, is_granted, timeout)?;
        if let OneReply::Granted { place: granted, .. } = reply {
            self.expect_replicas(from_ref(&place.requests[granted]), timeout)?;
            // Another of them may have been handed over at the same time, or granted by a request whose answer was lost.
            let others = self.cancel_others(&place.requests, granted);
            self.release_behind(&others, timeout);
            for call in &others {
                let cancelled = call.run_on_primary(&mut self.topology, timeout);
                // Without an answer it comes before the next request: later it would undo that.
                self.topology.mark_awaited();
                match cancelled {
                    Err(error) if error.is_unknown() || matches!(error, StoreError::Interrupted) => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        }
        Ok(place.note_one(reply))
    }

    /// The calls that leave the queues of all but one, and give them back.
    fn cancel_others(&self, requests: &[Request], granted: usize) -> Vec<ReleaseCall> {
        let mut others = requests.to_vec();
        others.remove(granted);
        self.cancel_calls(&others)
    }
}
