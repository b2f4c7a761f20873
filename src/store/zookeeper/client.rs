//! A session and its connection: one server after the other, until one answers.

use std::time::Duration;

use super::connection::{Greeting, SessionConnection, TransactionReply};
use super::error::ZooKeeperResult;
use super::layout::ZooKeeperAddress;
use super::message::{Answer, Code, Operation};
use super::session::Session;
use crate::clock::BootTime;
use crate::lock::Timeout;
use crate::store::attempts::one_after_the_other;
use crate::store::call_error::CallError;

/// A session, from its first call on.
pub struct SessionClient {
    address: ZooKeeperAddress,
    /// The server that is asked next.
    current: usize,
    /// The time that a new session is to live.
    asked: Duration,
    session: Option<Session>,
    connection: Option<SessionConnection>,
    /// When the connection was begun.
    begun: BootTime,
    /// The number of connections so far: a watch on an earlier one tells nothing.
    connections: u32,
    /// The last transaction that was seen, on whatever server.
    seen: i64,
}

impl SessionClient {
    /// A new session, with this timeout if the server grants it.
    pub fn new(address: &ZooKeeperAddress, asked: Duration) -> SessionClient {
        // Each client begins with a random server.
        let current = fastrand::usize(..address.cluster.servers.len().max(1));
        SessionClient {
            address: address.clone(),
            current,
            asked,
            session: None,
            connection: None,
            begun: BootTime::now(),
            connections: 0,
            seen: 0,
        }
    }

    /// The session of somebody who has these credentials.
    pub fn continuing(address: &ZooKeeperAddress, session: Session) -> SessionClient {
        SessionClient { session: Some(session.clone()), ..SessionClient::new(address, session.timeout) }
    }

    /// From its first call to its end.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// When the connection was begun, and with it the session begun or continued.
    pub fn begun(&self) -> Option<BootTime> {
        self.connection.as_ref().filter(|connection| !connection.is_broken).map(|_| self.begun)
    }

    /// Connects again and continues the session, or begins one.
    ///
    /// The server asks its leader whether the session goes on, and the leader counts the timeout from then: see
    /// [`Owner`](super::owner::Owner).
    pub fn attach(&mut self, timeout: &Timeout) -> ZooKeeperResult<Session> {
        self.connection = None;
        self.connect(timeout)
    }

    /// Connects, if that is not done yet.
    pub fn connect(&mut self, timeout: &Timeout) -> ZooKeeperResult<Session> {
        if let (Some(session), Some(connection)) = (&self.session, &mut self.connection)
            && connection.is_open()
        {
            return Ok(session.clone());
        }
        self.connection = None;
        one_after_the_other(self.address.cluster.servers.len(), timeout, |timeout| {
            let connected = self.connect_once(timeout);
            if let Err(CallError::NoAnswer { .. }) = connected {
                self.next_server();
            }
            connected
        })
    }

    fn connect_once(&mut self, timeout: &Timeout) -> ZooKeeperResult<Session> {
        let endpoint = &self.address.cluster.servers[self.current];
        let tls = self.address.cluster.tls();
        let login = self.address.login();
        let greeting = Greeting {
            session: self.session.as_ref(),
            timeout: self.asked,
            seen: self.seen,
            login: login.as_deref(),
        };
        let begun = BootTime::now();
        let opened = SessionConnection::open(endpoint, tls, &greeting, timeout);
        let Some((connection, session)) = opened.map_err(|error| self.named(error))? else {
            self.session = None;
            return Err(CallError::Expired);
        };
        if let Some(known) = self.session.as_ref().filter(|known| session.timeout < known.timeout) {
            let (known, now) = (known.timeout.as_millis(), session.timeout.as_millis());
            // Another server may grant what this one does not.
            return Err(self.named(CallError::no_answer(format!(
                "it grants {now} ms for a session, and another server granted {known} ms; see maxSessionTimeout"
            ))));
        }
        (self.connection, self.begun) = (Some(connection), begun);
        self.connections += 1;
        // The leaders count with the timeout that was granted first.
        Ok(self.session.get_or_insert(session).clone())
    }

    /// Says which of several servers it is.
    fn named(&self, error: CallError) -> CallError {
        let servers = &self.address.cluster.servers;
        error.at(&servers[self.current], servers.len())
    }

    /// The next call goes to the next server.
    pub fn next_server(&mut self) {
        self.connection = None;
        self.current = (self.current + 1) % self.address.cluster.servers.len().max(1);
    }

    /// Sends these requests once.
    pub fn call(
        &mut self,
        operations: &[Operation],
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<TransactionReply>> {
        self.connect(timeout)?;
        let Some(connection) = &mut self.connection else {
            return Err(CallError::no_answer("the connection is lost"));
        };
        let replies = connection.exchange(operations, timeout);
        self.seen = self.seen.max(connection.seen);
        let error = match replies {
            Ok(replies) => return Ok(replies),
            Err(error) => error,
        };
        let error = self.named(error);
        match error {
            CallError::Expired => (self.session, self.connection) = (None, None),
            // The end of the session may follow the requests that are out on the connection to the only server.
            CallError::NoAnswer { .. } if self.is_broken() || self.address.cluster.servers.len() > 1 => {
                self.next_server()
            }
            _ => {}
        }
        Err(error)
    }

    /// Sends requests that may be repeated, until a server answers.
    pub fn ask(
        &mut self,
        operations: &[Operation],
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<TransactionReply>> {
        // A connection that was left alone may have ended long ago.
        let attempts = self.address.cluster.servers.len() + 1;
        one_after_the_other(attempts, timeout, |timeout| self.call(operations, timeout))
    }

    pub fn is_connected(&self) -> bool {
        !self.is_broken()
    }

    fn is_broken(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_broken)
    }

    /// Ends the session, and with it what it holds. Requests in flight need the session, whenever they are carried out.
    pub fn close(&mut self, timeout: &Timeout) -> ZooKeeperResult<()> {
        if self.session.is_none() {
            return Ok(());
        }
        match self.ask(&[Operation::Close], timeout) {
            Ok(_) | Err(CallError::Expired) => {
                (self.session, self.connection) = (None, None);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a session that holds nothing, as far as that takes no time.
    pub fn dismiss(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.send_close(&Timeout::of(Duration::ZERO));
        }
        self.session = None;
    }

    /// Waits until something that is watched has changed: `true`, as when the connection was lost. Keeps the session
    /// while it waits.
    pub fn await_news(&mut self, timeout: &Timeout) -> ZooKeeperResult<bool> {
        let Some(session) = &self.session else { return Ok(true) };
        let lifetime = session.timeout;
        loop {
            let Some(connection) = self.connection.as_mut().filter(|connection| !connection.is_broken) else {
                return Ok(true);
            };
            let due = connection.sent.plus(lifetime / 3);
            let has_news = match due.has_passed() {
                true => connection.ping(timeout).map(|()| false),
                false => connection.await_news(&timeout.before(due)),
            };
            self.seen = self.seen.max(connection.seen);
            match has_news {
                Ok(true) => return Ok(true),
                Err(CallError::Interrupted) => return Err(CallError::Interrupted),
                // A server that hangs, or is cut off, is left while there is time to continue the session on another.
                Ok(false) if connection.heard.plus(lifetime * 2 / 3).has_passed() => self.next_server(),
                Ok(false) if timeout.until.has_passed() => return Ok(false),
                Ok(false) => {}
                Err(_) => self.next_server(),
            }
        }
    }
}

impl TransactionReply {
    /// The answer; `None` where the node is not there.
    pub fn found(self) -> ZooKeeperResult<Option<Answer>> {
        match self.answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Code::NO_NODE) => Ok(None),
            Err(code) => Err(code.into()),
        }
    }
}
