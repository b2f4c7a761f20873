//! Several locks in a cluster: those in one slot are taken by one script, the others one after the other.

use super::Redis;
use super::keys::slot;
use super::script::{self, Call};
use super::waiter::Waiter;
use crate::lock::{Patience, Request, StoreError, Take};

impl Redis {
    /// Takes all of them or none: what was taken is given back when a later one is not to be had.
    pub(super) fn take_by_slot(
        &mut self,
        requests: &[Request],
        patience: &Patience,
    ) -> Result<Take, StoreError> {
        let mut groups: Vec<(u16, Vec<Request>)> = Vec::new();
        for request in requests {
            let slot = slot(&request.key);
            match groups.iter_mut().find(|(of, _)| *of == slot) {
                Some((_, group)) => group.push(request.clone()),
                None => groups.push((slot, vec![request.clone()])),
            }
        }
        let mut taken = Vec::new();
        let mut fences = Vec::new();
        for (_, group) in groups {
            match self.take_together(&group, patience) {
                Ok(Take::Granted(granted)) => {
                    taken.extend(group);
                    fences.extend(granted);
                }
                Ok(busy) => {
                    self.cancel(&taken, patience)?;
                    return Ok(busy);
                }
                // Whoever loses patience gives everything back with a patience of its own.
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                Err(error) => {
                    let _ = self.cancel(&taken, patience);
                    return Err(error);
                }
            }
        }
        let fence_of = |request: &Request| {
            taken.iter().zip(&fences).find(|(taken, _)| taken.key == request.key).map(|(_, fence)| *fence)
        };
        Ok(Take::Granted(requests.iter().filter_map(fence_of).collect()))
    }

    /// Gives back at once what was just granted.
    pub(super) fn cancel(&mut self, requests: &[Request], patience: &Patience) -> Result<(), StoreError> {
        for request in requests {
            let call = Call::new(&script::RELEASE, &request.key, Some(&request.token));
            self.call(&call.arg(Waiter::place(request)), patience)?;
        }
        Ok(())
    }
}
