//! Giving back, also what a server that hangs has not answered.

use std::time::Duration;

use redis::Value;

use super::Redis;
use super::keys::KeyNames;
use super::net::connection::Connection;
use super::reply;
use super::script::{self, Call};
use super::topology::Unanswered;
use crate::lock::{Key, Request, StoreError, Timeout};

/// Who gets the lock confirms that sooner than this; a little more than `DOUBT` in `scripts/queue.lua`.
const CONFIRMATION: Duration = Duration::from_millis(320);

impl Redis {
    /// See `Topology::send_behind_unanswered`.
    pub(super) fn send_behind_unanswered(&mut self, calls: &[Call], patience: &Timeout) -> Vec<Unanswered> {
        // In full: whether the server knows the script cannot be asked. Also behind what was to give back and was
        // not in full.
        let cancelling = std::mem::take(&mut self.cancelling);
        self.route.send_behind_unanswered(cancelling, calls.iter().map(Call::in_full), patience)
    }

    /// Gives locks back that one script can see. Returns for each whether it was held.
    pub(super) fn released(&mut self, call: &Call, patience: &Timeout) -> Result<Vec<bool>, StoreError> {
        let reply = self.call_in_charge(call, patience);
        // An attempt that had no answer may be carried out later.
        self.cancelling.extend(self.route.take_unanswered());
        let reply = reply?;
        for key in reply::handed_over(&reply, call.keys()) {
            self.see_confirmed(key, patience);
        }
        self.understood(reply::released(reply, call.keys().len()))
    }

    /// Sees to it that somebody got the lock who is alive. A waiter whose machine vanished looks alive to the server, and
    /// those behind it are idle: who gave the lock back is the only one sure to be alive. What goes wrong here is made
    /// up for when the next of them asks.
    pub(super) fn see_confirmed(&mut self, key: &Key, patience: &Timeout) {
        let until = patience.until.min(Timeout::of(CONFIRMATION * 3).until);
        let patience = Timeout { until, ..*patience };
        let mut news = redis::cmd("BLPOP");
        news.arg(KeyNames::of(key).claimed).arg(CONFIRMATION.as_secs_f64());
        if matches!(self.route.follow_up(&news, &patience), Ok(Value::Nil)) {
            let _ = self.route.follow_up(&Call::new(&script::PROBE, key, None).in_full(), &patience);
        }
    }

    /// Hands over all connections that have an answer out.
    pub(super) fn take_hung(&mut self) -> Vec<Connection> {
        let mut hung = std::mem::take(&mut self.cancelling);
        hung.extend(self.route.take_unanswered());
        hung.into_iter().map(|(_, connection)| connection).collect()
    }

    /// Waits for the answers to all that was given back.
    pub(super) fn await_cancels(
        &mut self,
        requests: &[Request],
        patience: &Timeout,
    ) -> Result<(), StoreError> {
        let hung = std::mem::take(&mut self.cancelling);
        if hung.is_empty() {
            return Ok(());
        }
        let (left, outcome) = self.route.await_answers(hung, requests, patience);
        self.cancelling = left;
        outcome
    }
}
