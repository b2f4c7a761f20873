//! Several locks: one script for all of them; in a cluster for those in one slot, one slot after the other.

use super::keys::slot;
use super::routing::Routing;
use super::script::{self, AcquireReply, Queueing, ReleaseCall};
use super::store::Redis;
use crate::lock::{AcquireOutcome, Busy, Key, Request, Result, Store, StoreError, Timeout};

impl Redis {
    /// Acquires all of them or none: what was acquired is released when a later lock is not free.
    pub(super) fn acquire_all(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        let (mut acquired, mut fences, mut permits) = (Vec::new(), Vec::new(), Vec::new());
        for group in self.by_slot(requests, |request| &request.key) {
            match self.acquire_by_one_script(&group, timeout) {
                Ok(AcquireOutcome::Granted(granted)) => {
                    acquired.extend(group);
                    fences.extend(granted.fences);
                    permits.extend(granted.permits);
                }
                Ok(busy) => {
                    self.undo(&acquired, timeout)?;
                    return Ok(busy);
                }
                // The caller cancels everything, with a timeout of its own.
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                Err(error) => {
                    let _ = self.undo(&acquired, timeout);
                    return Err(error);
                }
            }
        }
        let place = |request: &Request| acquired.iter().position(|acquired| acquired.key == request.key);
        let places = || requests.iter().filter_map(place);
        let fences = places().filter_map(|place| fences.get(place).copied()).collect();
        let permits = places().filter_map(|place| permits.get(place).cloned()).collect();
        Ok(AcquireOutcome::granted_permits(fences, permits))
    }

    /// Acquires locks with one script; in a cluster all of them are in one slot.
    fn acquire_by_one_script(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        let Some(first) = requests.first() else { return Ok(AcquireOutcome::granted(Vec::new())) };
        self.topology.await_releases(requests, timeout)?;
        let call = script::acquire(first, requests, Queueing::No, "");
        match call.run_on_primary(&mut self.topology, timeout)?? {
            AcquireReply::Granted { fences, permits } => {
                self.expect_replicas(requests, timeout)?;
                Ok(AcquireOutcome::granted_permits(fences, permits))
            }
            AcquireReply::Busy(reply) => {
                if self.topology.servers().any(|server| server.in_flight.has_requests()) {
                    // An earlier attempt has no answer yet, and must not acquire the lock later.
                    let _ = Store::cancel(self, requests, timeout);
                }
                Ok(AcquireOutcome::Busy(reply.busy.into()))
            }
            // Said to waiters only.
            AcquireReply::DataLost { .. } => {
                Ok(AcquireOutcome::Busy(Busy::by_unknown(first.key.clone()).into()))
            }
        }
    }

    /// Releases what was just granted, without its min-hold.
    pub(super) fn undo(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        for call in self.cancel_calls(requests) {
            self.release_now(&call, timeout)?;
        }
        Ok(())
    }

    pub(super) fn cancel_calls(&self, requests: &[Request]) -> Vec<ReleaseCall> {
        let groups = self.by_slot(requests, |request| &request.key);
        // The place in a queue has the mode in its name.
        let of_one_mode = |group: Vec<Request>| {
            let chunks = group.chunk_by(|one, next| one.mode == next.mode);
            chunks.map(|chunk| script::cancel(&chunk[0], chunk)).collect::<Vec<_>>()
        };
        groups.into_iter().flat_map(of_one_mode).collect()
    }

    /// In a cluster those in one slot are one group: no script can see the keys of two. Elsewhere all are one.
    pub(super) fn by_slot<T: Clone>(&self, all: &[T], key: impl Fn(&T) -> &Key) -> Vec<Vec<T>> {
        if !self.topology.is_cluster() {
            return vec![all.to_vec()];
        }
        let mut groups: Vec<(u16, Vec<T>)> = Vec::new();
        for one in all {
            let slot = slot(key(one));
            match groups.iter_mut().find(|(of, _)| *of == slot) {
                Some((_, group)) => group.push(one.clone()),
                None => groups.push((slot, vec![one.clone()])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}
