//! Asking again where the server in charge may be another one by now.

use std::time::Duration;

use redis::{Cmd, Value};

use super::guide::{Discovery, passing};
use super::{NodeId, Target, Topology};
use crate::clock::BootTime;
use crate::lock::{StoreError, Timeout};
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::net::wait::pause;
use crate::store::redis::refusal::{Refusal, accepted, refusal};
use crate::store::redis::topology::cluster::Redirection;

/// Between two attempts to find the server in charge: at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// A server that takes longer for an answer may have been replaced.
const SUSPICIOUS: Duration = Duration::from_millis(300);
/// A request that another server can answer as well gets a part of the time there is, and not less than this.
const LEAST: Duration = Duration::from_millis(100);

impl Topology {
    /// Tries until something comes of it, or the patience ends, or nobody is there to say who is in charge.
    /// `None` asks for another attempt at once.
    pub(super) fn persist<T>(
        &mut self,
        patience: &Timeout,
        mut attempt: impl FnMut(&mut Topology) -> Result<Option<T>, StoreError>,
    ) -> Result<T, StoreError> {
        let mut wait = RETRY.0;
        let mut at_once = 4;
        loop {
            let why = match attempt(self) {
                Ok(Some(result)) => return Ok(result),
                // Two servers that name each other are not asked in a circle without a pause.
                Ok(None) if at_once > 0 => {
                    at_once -= 1;
                    continue;
                }
                Ok(None) => RequestError::TimedOut.of(&self.name),
                Err(why @ StoreError::Unreachable { transient: true, .. }) => why,
                Err(other) => return Err(other),
            };
            match pause(wait.mul_f64(0.5 + fastrand::f64()), patience) {
                Ok(()) => wait = (wait * 2).min(RETRY.1),
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) => return Err(why),
            }
        }
    }

    /// Sends the command once: to the server in charge, or where that one said that it is to be sent this time.
    pub(super) fn attempt(
        &mut self,
        place: Target,
        aside: &mut Option<NodeId>,
        command: &Cmd,
        patience: &Timeout,
    ) -> Result<Option<Value>, StoreError> {
        let share = part_of(patience);
        let is_aside = aside.is_some();
        let node = match aside.take() {
            Some(node) => node,
            None => self.find(place, &share)?,
        };
        let mut connection = self.connected(node, &share).map_err(|why| self.failed(node, why))?;
        let sent = BootTime::now();
        let mut answer = Ok(Value::Okay);
        if is_aside {
            answer = connection.query(&redis::cmd("ASKING"), &share);
        }
        if answer.is_ok() {
            answer = connection.query(command, &share);
        }
        let reply = self.noted(node, connection, answer).map_err(|failure| {
            self.repeated = true;
            self.failed(node, failure.of(&self.node_name(node)))
        })?;
        (self.answered, self.answered_aside) = (node, is_aside);
        if self.is_cluster() && sent.plus(SUSPICIOUS).has_passed() {
            self.suspect(node);
        }
        let Value::ServerError(error) = &reply else { return Ok(Some(reply)) };
        match (Redirection::read(error, &self.nodes[node].endpoint), &mut self.guide) {
            (Some(Redirection::Ask { to }), Discovery::Cluster(_)) => {
                *aside = Some(self.node(to)?);
                return Ok(None);
            }
            (Some(Redirection::Moved { slot, to }), Discovery::Cluster(_)) => {
                let to = self.node(to)?;
                if let Discovery::Cluster(cluster) = &mut self.guide {
                    cluster.learn(slot, to);
                }
                return Ok(None);
            }
            _ => {}
        }
        match refusal(error) {
            Refusal::Transient => self.suspect(node),
            // The connection to one that was replaced is of no use.
            Refusal::NotMaster => self.distrust(),
            _ => return Ok(Some(reply)),
        }
        accepted(reply, &self.node_name(node)).map(Some).map_err(passing)
    }
}

/// So that there is time left to ask another server.
pub fn part_of<'a>(patience: &Timeout<'a>) -> Timeout<'a> {
    let part = BootTime::after((patience.until.left() / 3).max(LEAST));
    Timeout { until: patience.until.min(part), ..*patience }
}
