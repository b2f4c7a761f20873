//! The streams of a waiter: one keeps its place alive, one says what becomes of those before it.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::calls::EtcdCalls;
use super::keep_alive::{Extension, KeepAlive};
use super::message::{NO_PUT, WatchCreateRequest, WatchResponse};
use super::predecessors::Predecessors;
use crate::clock::BootTime;
use crate::lock::{StoreError, Timeout};
use crate::store::call_error::CallError;

/// An answer on one of the streams; `None` when the stream ended, as on a member that lost its leader.
pub enum StreamMessage {
    Queue(Option<WatchResponse>),
    Place(Option<Extension>),
}

/// Both are opened when they are wanted, and again on the next connection.
#[derive(Default)]
pub struct Streams {
    place: Option<KeepAlive>,
    /// With the number of its connection.
    queue: Option<(u32, UnboundedReceiver<WatchResponse>)>,
}

impl Streams {
    /// Keeps the lease of the place alive, which was extended at `last`.
    pub fn keep(
        &mut self,
        lease: i64,
        last: BootTime,
        interval: Duration,
        calls: &mut EtcdCalls,
        timeout: &Timeout,
    ) -> Result<(), StoreError> {
        if self.place.as_ref().is_none_or(|place| !place.is_current(calls)) {
            self.place = Some(KeepAlive::start(lease, last, interval, calls, timeout)?);
        }
        Ok(())
    }

    /// Has etcd tell of those before us.
    pub fn listen(
        &mut self,
        awaited: &Predecessors,
        calls: &mut EtcdCalls,
        timeout: &Timeout,
    ) -> Result<(), StoreError> {
        if self.queue.as_ref().is_some_and(|(on, _)| *on == calls.members.connections()) {
            return Ok(());
        }
        let Predecessors { key, range_end, revision, .. } = awaited;
        let request = WatchCreateRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            start_revision: revision + 1,
            // An exclusive or shared waiter also hears of puts: one says that the owner was granted the lock. A semaphore
            // would send one for every permit, so its waiters hear of deletions only.
            filters: if range_end.is_empty() { Vec::new() } else { vec![NO_PUT] },
        };
        let queue = calls.members.call(timeout, |client| {
            let request = request.clone();
            async move { Ok(client.watch(request)) }
        })?;
        self.queue = Some((calls.members.connections(), queue));
        Ok(())
    }

    /// The next [`Streams::listen`] is about others.
    pub fn stop_listening(&mut self) {
        self.queue = None;
    }

    /// The last answer to an extension that has come already.
    pub fn last_extension(&mut self) -> Option<Extension> {
        self.place.as_mut().and_then(KeepAlive::last_answer)
    }

    /// Waits for the next message on either stream. Both are open.
    pub fn next(&mut self, calls: &EtcdCalls, timeout: &Timeout) -> Result<StreamMessage, CallError> {
        let (Some(place), Some((_, queue))) = (&mut self.place, &mut self.queue) else {
            return Ok(StreamMessage::Queue(None));
        };
        calls.members.wait(timeout, async {
            tokio::select! {
                answer = queue.recv() => StreamMessage::Queue(answer),
                answer = place.answer() => StreamMessage::Place(answer),
            }
        })
    }
}
