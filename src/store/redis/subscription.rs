//! A subscription to the channels of a waiter.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use redis::Value;

use super::connection::Connection;
use super::reply::{ErrorClass, classify, explain, items, text};
use crate::lock::Timeout;
use crate::store::net::{RequestError, RequestResult};

pub struct Subscription {
    connection: Connection,
}

pub enum Message {
    /// It is time to ask: the lock may have been handed over.
    Ask,
    /// The waiter is the first in the queue, and the lease of the holder lasts this long.
    First(Duration),
    /// The lock was handed to another waiter, which may never confirm it.
    Watch,
}

impl Subscription {
    /// Subscribes to these channels. From now on the server counts the waiter as alive.
    pub fn open(
        mut connection: Connection,
        channels: &[String],
        timeout: &Timeout,
    ) -> RequestResult<Subscription> {
        match connection.query(redis::cmd("SUBSCRIBE").arg(channels), timeout)? {
            Value::Array(_) => Ok(Subscription { connection }),
            Value::ServerError(error) if classify(&error) == ErrorClass::Denied => {
                Err(RequestError::Denied(explain(&error)))
            }
            Value::ServerError(error) => Err(RequestError::Broken(explain(&error))),
            _ => Err(RequestError::broken("SUBSCRIBE has an unknown answer")),
        }
    }

    /// Waits for the next message to a waiter.
    pub fn message(&mut self, timeout: &Timeout) -> RequestResult<Message> {
        Ok(match self.text(timeout)?.as_str() {
            "watch" => Message::Watch,
            text => text.parse().map_or(Message::Ask, |millis| Message::First(Duration::from_millis(millis))),
        })
    }

    pub fn text(&mut self, timeout: &Timeout) -> RequestResult<String> {
        loop {
            let message = items(self.connection.read(timeout)?);
            if text(message.first()) == "message" {
                return Ok(text(message.get(2)));
            }
            if timeout.until.has_passed() {
                return Err(RequestError::TimedOut);
            }
        }
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
