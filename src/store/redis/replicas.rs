//! `--replicas`: what the replicas of the server do not have yet, a failover forgets.

use std::time::Duration;

use super::Redis;
use super::script::number;
use crate::lock::{Patience, Request, StoreError};

/// For the acknowledgements; a part of the TTL where that is shorter.
const LONGEST: Duration = Duration::from_secs(1);

impl Redis {
    /// Gives locks back that were granted when not enough replicas have them.
    pub(super) fn expect_replicas(
        &mut self,
        requests: &[Request],
        patience: &Patience,
    ) -> Result<(), StoreError> {
        let Some(first) = requests.first() else { return Ok(()) };
        match self.count_replicas(first, patience) {
            Err(StoreError::NotReplicated { key, acknowledged, wanted, within, .. }) => {
                self.cancel(requests, patience)?;
                let then = "; it was given back";
                Err(StoreError::NotReplicated { key, acknowledged, wanted, within, then })
            }
            other => other,
        }
    }

    /// An error when fewer replicas than wanted have what was written last. WAIT counts the writes of the same
    /// connection only.
    pub(super) fn count_replicas(
        &mut self,
        request: &Request,
        patience: &Patience,
    ) -> Result<(), StoreError> {
        let wanted = request.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let within = LONGEST.min(request.ttl.duration() / 10).min(patience.until.left() / 2);
        // 0 would be without end.
        let within = Duration::from_millis(within.as_millis().max(1) as u64);
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(within.as_millis() as u64);
        let reply = self.route.follow_up(&wait, patience)?;
        let acknowledged = number(Some(&reply)).max(0) as u64;
        if acknowledged >= u64::from(wanted) {
            return Ok(());
        }
        Err(StoreError::NotReplicated { key: request.key.clone(), acknowledged, wanted, within, then: "" })
    }
}
