//! Several locks in a cluster: those in one slot are taken by one script, the others one after the other.

use super::Redis;
use super::keys::slot;
use super::script::{self, Call};
use super::waiter::QueuePlace;
use crate::lock::{AcquireOutcome, Grant, Key, OwnerToken, Request, StoreError, Timeout};

impl Redis {
    /// Takes all of them or none: what was taken is given back when a later one is not to be had.
    pub(super) fn take_by_slot(
        &mut self,
        requests: &[Request],
        patience: &Timeout,
    ) -> Result<AcquireOutcome, StoreError> {
        let mut taken = Vec::new();
        let mut fences = Vec::new();
        for group in by_slot(requests, |request| &request.key) {
            match self.take_together(&group, patience) {
                Ok(AcquireOutcome::Granted(Grant { fences: granted, .. })) => {
                    taken.extend(group);
                    fences.extend(granted);
                }
                Ok(busy) => {
                    self.give_back_granted(&taken, patience)?;
                    return Ok(busy);
                }
                // Whoever loses patience gives everything back with a patience of its own.
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                Err(error) => {
                    let _ = self.give_back_granted(&taken, patience);
                    return Err(error);
                }
            }
        }
        let fence_of = |request: &Request| {
            taken.iter().zip(&fences).find(|(taken, _)| taken.key == request.key).map(|(_, fence)| *fence)
        };
        Ok(AcquireOutcome::granted(requests.iter().filter_map(fence_of).collect()))
    }

    /// Gives back at once what was just granted.
    pub(super) fn give_back_granted(
        &mut self,
        requests: &[Request],
        patience: &Timeout,
    ) -> Result<(), StoreError> {
        let Some(first) = requests.first() else { return Ok(()) };
        let keys: Vec<Key> = requests.iter().map(|request| request.key.clone()).collect();
        for call in self.release_calls(&keys, &first.token, &QueuePlace::place(first)) {
            self.released(&call, patience)?;
        }
        Ok(())
    }

    /// Gives locks back, with as few scripts as can see them.
    pub(super) fn release_calls(&self, keys: &[Key], token: &OwnerToken, place: &str) -> Vec<Call> {
        let call = |keys: &[Key]| Call::of_several(&script::RELEASE, keys, Some(token)).arg(place);
        if self.are_apart(keys) {
            by_slot(keys, |key| key).iter().map(|keys| call(keys)).collect()
        } else {
            vec![call(keys)]
        }
    }

    /// Whether no script can see all of these keys.
    pub(super) fn are_apart<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> bool {
        let mut slots = keys.into_iter().map(slot);
        self.route.is_cluster() && slots.next().is_some_and(|first| slots.any(|other| other != first))
    }
}

fn by_slot<T: Clone>(all: &[T], key: impl Fn(&T) -> &Key) -> Vec<Vec<T>> {
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
