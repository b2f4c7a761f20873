//! Giving back, also what a server that hangs has not answered.

use super::Redis;
use super::connection::Connection;
use super::reply;
use super::route::Unanswered;
use super::script::Call;
use crate::lock::{Patience, Request, StoreError};

impl Redis {
    /// See `Route::send_behind_unanswered`.
    pub(super) fn send_behind_unanswered(&mut self, calls: &[Call], patience: &Patience) -> Vec<Unanswered> {
        // In full: whether the server knows the script cannot be asked. Also behind what was to give back and was
        // not in full.
        let cancelling = std::mem::take(&mut self.cancelling);
        self.route.send_behind_unanswered(cancelling, calls.iter().map(Call::in_full), patience)
    }

    /// Gives locks back that one script can see. Returns for each whether it was held.
    pub(super) fn released(&mut self, call: &Call, patience: &Patience) -> Result<Vec<bool>, StoreError> {
        let reply = self.call_in_charge(call, patience);
        // An attempt that had no answer may be carried out later.
        self.cancelling.extend(self.route.take_unanswered());
        let reply = reply?;
        self.understood(reply::released(reply, call.keys().len()))
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
        patience: &Patience,
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
