//! `--replicas`: a failover forgets what the replicas of the server do not have yet.

use std::time::Duration;

use super::reply::number;
use super::routing::Routing;
use super::store::Redis;
use crate::lock::{DurationText, Renewal, Request, Result, StoreError, Timeout};

/// The time for the acknowledgements; a part of the TTL where that is shorter.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Redis {
    /// Releases locks that were granted when not enough replicas have them.
    pub(super) fn expect_replicas(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        let Some(first) = requests.first() else { return Ok(()) };
        match self.count_replicas(first, timeout) {
            Err(StoreError::Unconfirmed(why)) => {
                self.undo(requests, timeout)?;
                Err(StoreError::Unconfirmed(why + "; it was given back"))
            }
            other => other,
        }
    }

    /// The renewal, when enough replicas have it. A heal that they did not have is reported with the next renewal that
    /// they have.
    pub(super) fn replicated(
        &mut self,
        renewal: Renewal,
        request: &Request,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        match renewal {
            Renewal::Released | Renewal::Lost(_) => return Ok(renewal),
            Renewal::Healed if !self.healed.contains(&request.key) => self.healed.push(request.key.clone()),
            Renewal::Healed | Renewal::Extended => {}
        }
        self.count_replicas(request, timeout)?;
        let unreported = self.healed.iter().position(|key| *key == request.key);
        Ok(match unreported.map(|index| self.healed.swap_remove(index)) {
            Some(_) => Renewal::Healed,
            None => Renewal::Extended,
        })
    }

    /// An error when fewer replicas than wanted have what was written last. WAIT counts the writes of its own connection
    /// only.
    fn count_replicas(&mut self, request: &Request, timeout: &Timeout) -> Result<()> {
        let wanted = self.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let within = LONGEST_WAIT.min(request.ttl.duration() / 10).min(timeout.until.left() / 2);
        // 0 would be without end.
        let within = Duration::from_millis(within.as_millis().max(1) as u64);
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(within.as_millis() as u64);
        let reply = self.topology.follow_up(&wait, timeout)?;
        let acknowledged = number(Some(&reply)).max(0) as u64;
        if acknowledged >= u64::from(wanted) {
            return Ok(());
        }
        let (key, within) = (&request.key, DurationText(within));
        Err(StoreError::Unconfirmed(format!(
            "only {acknowledged} of {wanted} replicas have '{key}' within {within}"
        )))
    }
}
