//! The renewal of an owner's locks: all of them together, as they are in one session.

use std::time::Duration;

use super::calls::Node;
use super::contender::{Contender, id};
use super::owner::State;
use super::store::ZooKeeper;
use crate::lock::{Key, OwnerToken, Renewal, Request, StoreError, Timeout};

impl ZooKeeper {
    /// Extends the session that these locks are in, which have one owner, and says what became of each.
    pub(super) fn renew_together(
        &mut self,
        requests: &[&Request],
        timeout: &Timeout,
    ) -> Result<Vec<Result<Renewal, StoreError>>, StoreError> {
        let mut owner = None;
        for Request { key, token, .. } in requests {
            owner = self.holder(key, token, timeout)?.or(owner);
        }
        let states = match owner.map(|index| &mut self.owners[index]) {
            None => vec![State::Gone; requests.len()],
            Some(owner) => {
                let made = owner.session().map_or(Duration::MAX, |session| session.timeout);
                if let Some(Request { key, .. }) = requests.iter().find(|one| made < one.ttl.duration()) {
                    let (store, made) = (self.name.clone(), made.as_millis());
                    let why = format!(
                        "the session of '{key}' was made for {made} ms, which cannot be changed; use --ttl {made}ms"
                    );
                    return Err(StoreError::Unusable { store, why });
                }
                let keys: Vec<&Key> = requests.iter().map(|request| &request.key).collect();
                owner.renew(&keys, &self.calls, timeout).map_err(|error| error.of(&self.name))?
            }
        };
        let renewals = requests.iter().zip(states).map(|(Request { key, token, .. }, state)| match state {
            State::Held => Ok(Renewal::Extended),
            state => self.lost(key, token, state, timeout),
        });
        Ok(renewals.collect())
    }

    /// The loss of a lock: the user that broke it, or the holder now. Nothing tells a release from a deletion: both delete the nodes.
    fn lost(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        state: State,
        timeout: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let id = id(token);
        let holder = self.look(|calls, client| {
            let queue = calls.queue(key, true, client, timeout)?;
            let is_own = |contender: &&Contender| contender.id == Some(id);
            let shown = match state {
                State::Broken => queue.iter().find(is_own),
                _ => queue.first().filter(|first| !is_own(first)),
            };
            let Some(shown) = shown else { return Ok(None) };
            let node = calls.node(key, shown, client, timeout)?.filter(Node::has_lock);
            let holder = node.map(|node| node.holder());
            Ok(holder.filter(|holder| state != State::Broken || holder.broken.is_some()))
        })?;
        Ok(Renewal::Lost(holder.map(Box::new)))
    }
}
