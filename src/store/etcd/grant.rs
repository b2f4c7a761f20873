//! The grant of a lock to the first waiter: its key gets the lease of the holder.

use super::calls::{EtcdCalls, txn};
use super::message::{Compare, EQUAL, PutRequest, TxnOperation, TxnRequest};
use super::recipe::{has_no_lease, read_itself};
use super::waiter::EtcdWaiter;
use crate::clock::BootTime;
use crate::lock::{AcquireOutcome, FencingToken, Grant, Request, StoreError, Timeout};
use crate::store::queue::EntryData;

impl EtcdWaiter {
    pub(super) fn granted(&mut self, created: i64) -> AcquireOutcome {
        self.is_granted = true;
        let fences = vec![FencingToken(created.unsigned_abs())];
        AcquireOutcome::Granted(Grant { fences, permits: Vec::new(), counted_from: self.counted_from })
    }

    /// Gives our key the lease of the holder.
    ///
    /// Unless the lease is fresh it is extended at the same time, so it counts from this call on.
    pub(super) fn take(
        &mut self,
        created: i64,
        calls: &mut EtcdCalls,
        timeout: &Timeout,
    ) -> Result<bool, StoreError> {
        let Request { key, mode, ttl, .. } = &self.request;
        let (name, lease) = (calls.layout.name(key, self.id, *mode), self.id.holding());
        let ours = Compare::created(name.clone(), Vec::new(), EQUAL, created);
        let compare = vec![ours, has_no_lease(&calls.layout, key)];
        let value = EntryData::granted_in_turn(&self.request).to_bytes();
        let put = PutRequest { key: name, value, lease, ignore_value: false };
        let failure = vec![read_itself(&calls.layout, key)];
        let request = TxnRequest { compare, success: vec![TxnOperation::put(put)], failure };
        loop {
            if self.lease_at.is_none() {
                let sent = BootTime::now();
                let is_new = calls.grant(lease, ttl.duration().as_secs() as i64, timeout)?;
                (self.lease_at, self.is_extended) = (Some(sent), !is_new);
            }
            let made_at = self.lease_at.filter(|_| !self.is_extended);
            self.counted_from = made_at.filter(|at| BootTime::now().since(*at) < ttl.fresh_for());
            let is_fresh = self.counted_from.is_some();
            let (left, done) = calls.members.call(timeout, |client| {
                let request = request.clone();
                async move {
                    match is_fresh {
                        true => Ok((1, txn(&client, request).await?)),
                        false => tokio::try_join!(client.keep_alive(lease), txn(&client, request)),
                    }
                }
            })?;
            match done {
                // It ended while we waited.
                None => self.lease_at = None,
                Some(done) if !done.succeeded => {
                    calls.refuse_itself(key, &done.into_keys().collect::<Vec<_>>())?;
                    return Ok(false);
                }
                Some(_) if left > 0 => return Ok(true),
                Some(_) => {
                    (self.lease_at, self.created) = (None, None);
                    return Ok(false);
                }
            }
        }
    }
}
