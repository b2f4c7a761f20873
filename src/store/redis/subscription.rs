use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use redis::Value;

use super::connection::Connection;
use super::failure::Failure;
use super::refusal::{Refusal, explain, refusal};
use super::script::{items, text};
use crate::lock::Patience;

/// The channel on which a waiter is woken.
pub struct Subscription {
    connection: Connection,
}

/// What a waiter is told.
pub enum News {
    /// It is time to ask: the lock may have been handed over.
    Ask,
    /// The waiter is the first in line, and the lease of the holder lasts this long.
    First(Duration),
    /// Somebody else was given the lock, and may never take it up.
    Watch,
}

impl Subscription {
    /// Listens to `channel`. From here on the server counts the waiter as alive.
    pub fn open(
        mut connection: Connection,
        channel: &str,
        patience: &Patience,
    ) -> Result<Subscription, Failure> {
        match connection.query(redis::cmd("SUBSCRIBE").arg(channel), patience)? {
            Value::Array(_) => Ok(Subscription { connection }),
            Value::ServerError(error) if refusal(&error) == Refusal::Denied => {
                Err(Failure::Denied(explain(&error)))
            }
            Value::ServerError(error) => Err(Failure::Broken(explain(&error))),
            _ => Err(Failure::Broken("SUBSCRIBE has an unknown answer".to_owned())),
        }
    }

    /// Waits for the next message.
    pub fn listen(&mut self, patience: &Patience) -> Result<News, Failure> {
        let news = self.message(patience)?;
        if news == "watch" {
            return Ok(News::Watch);
        }
        Ok(news.parse().map_or(News::Ask, |millis| News::First(Duration::from_millis(millis))))
    }

    /// The text of the next message.
    pub fn message(&mut self, patience: &Patience) -> Result<String, Failure> {
        loop {
            let message = items(self.connection.read(patience)?);
            if text(message.first()) == "message" {
                return Ok(text(message.get(2)));
            }
            if patience.until.has_passed() {
                return Err(Failure::TimedOut);
            }
        }
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
