//! Requests that were sent and have no answer yet.

use std::time::Duration;

use redis::{Cmd, Value};

use super::connection::Connection;
use crate::lock::Timeout;
use crate::store::net::{RequestError, RequestResult};

/// The connections to one server on which requests are in flight: sent, and not answered in time.
///
/// - The server may carry out such a request at any later time, also when we close the connection: it reads what it has
///   received, once it runs again.
/// - It carries out the requests of one connection in their order. It may carry out two connections in any order. So what a
///   request in flight may acquire is released behind it, on the same connection.
/// - That release goes out in full (EVAL): nobody is there to say that the server does not know the script.
/// - The release is in flight then, and would undo what the same token acquires later. So its answer is awaited first.
/// - What was sent on a connection that broke may still be carried out. This leaves a doubt until the server has carried
///   out everything that it received, see [`super::server::Server::settle`].
#[derive(Default)]
pub struct InFlight {
    /// The newest first. Nothing was sent behind these requests.
    requests: Vec<Connection>,
    /// The last request on each of these is a release, or another one whose answer is awaited.
    awaited: Vec<Connection>,
    /// A connection broke on which something was in flight.
    pub is_in_doubt: bool,
}

/// More connections that hang are not worth their descriptors.
const MOST_REQUESTS: usize = 4;

impl InFlight {
    /// The last request on this connection has no answer.
    pub fn add(&mut self, connection: Connection) {
        self.is_in_doubt |= self.requests.len() == MOST_REQUESTS;
        self.requests.truncate(MOST_REQUESTS - 1);
        self.requests.insert(0, connection);
    }

    /// True if a request behind which nothing was sent may still be carried out.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty() || self.is_in_doubt
    }

    /// True if the next request has to wait for something.
    pub fn has_awaited(&self) -> bool {
        !self.awaited.is_empty() || self.is_in_doubt
    }

    /// Awaits the answers to all requests in flight from now on, as after a release.
    pub fn mark_awaited(&mut self) {
        self.awaited.append(&mut self.requests);
    }

    /// Sends releases, in full, behind everything that is in flight. True if anything is in flight.
    pub fn release_behind(&mut self, releases: impl Iterator<Item = Cmd> + Clone, timeout: &Timeout) -> bool {
        self.forget_answered();
        self.mark_awaited();
        let all = self.awaited.len();
        self.awaited.retain_mut(|connection| {
            releases.clone().all(|command| connection.send(&command, timeout).is_ok())
        });
        self.is_in_doubt |= self.awaited.len() < all;
        !self.awaited.is_empty()
    }

    /// Closes the connections whose answers have come by now.
    fn forget_answered(&mut self) {
        let now = Timeout::of(Duration::ZERO);
        self.requests.retain_mut(|connection| match connection.skip_replies(0, &now) {
            Err(RequestError::TimedOut) => true,
            answered => {
                self.is_in_doubt |= answered.is_err();
                false
            }
        });
    }

    /// Waits for the answers that are awaited. Returns the last one of each connection, the first of which becomes `free`
    /// where there is none. A connection that broke leaves a doubt.
    pub fn await_answers(
        &mut self,
        free: &mut Option<Connection>,
        timeout: &Timeout,
    ) -> RequestResult<Vec<Value>> {
        let mut answers = Vec::new();
        while let Some(mut connection) = self.awaited.pop() {
            match connection.skip_replies(0, timeout) {
                Ok(()) => {
                    answers.extend(connection.take_skipped().pop());
                    free.get_or_insert(connection);
                }
                Err(RequestError::Broken(_)) => self.is_in_doubt = true,
                Err(error) => {
                    self.awaited.push(connection);
                    return Err(error);
                }
            }
        }
        Ok(answers)
    }

    /// Forgets the answers of a server that is not the primary any more: what it carries out does not count.
    pub fn forget_awaited(&mut self) {
        self.awaited.clear();
        self.is_in_doubt = false;
    }
}
