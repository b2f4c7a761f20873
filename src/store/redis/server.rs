//! One server: its connection, the requests in flight, and the scripts that run there.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};

use super::connection::{Connection, LONGEST_REPLY};
use super::in_flight::InFlight;
use super::login::Login;
use super::reply::{accepted, in_short, items, text, transient};
use super::routing::{Routing, Target};
use super::url::{RedisAddress, ServerAddress};
use crate::lock::{Result, StoreError, Timeout};
use crate::store::net::{Endpoint, RequestError};

/// A server that has locks. It is connected to with the first request.
pub struct Server {
    pub endpoint: Endpoint,
    login: Arc<Login>,
    name: String,
    /// A new connection is of use only if the server says that it is a primary.
    pub must_be_primary: bool,
    /// For requests.
    pub connection: Option<Connection>,
    pub in_flight: InFlight,
    /// A request was or may have been carried out here.
    pub was_asked: bool,
    /// The last request was sent more than once, as there was no answer to it at first.
    pub has_repeated: bool,
    /// A reply of more bytes than this is an error.
    pub longest: u64,
}

impl Server {
    pub fn new(endpoint: Endpoint, login: Arc<Login>, name: String) -> Server {
        Server {
            endpoint,
            login,
            name,
            must_be_primary: false,
            connection: None,
            in_flight: InFlight::default(),
            was_asked: false,
            has_repeated: false,
            longest: LONGEST_REPLY,
        }
    }

    /// The server at this address, if it is the address of one.
    pub fn at(address: &RedisAddress) -> Result<Server> {
        let name = address.to_string();
        match &address.servers {
            ServerAddress::One(endpoint) => {
                Ok(Server::new(endpoint.clone(), Arc::new(address.login.clone()), name))
            }
            _ => Err(StoreError::Unusable { store: name, why: "it is not one server".to_owned() }),
        }
    }

    /// A new connection, beside the one for requests.
    pub fn connect(&self, timeout: &Timeout) -> Result<Connection> {
        let mut connection = self.login.connect(&self.endpoint, &self.name, timeout)?;
        if self.must_be_primary {
            // The Sentinels may be behind.
            let role =
                connection.query(&redis::cmd("ROLE"), timeout).map_err(|error| error.of(&self.name))?;
            let role = text(items(accepted(role, &self.name)?).first());
            if role != "master" {
                let role = in_short(&role).escape_default();
                let why = format!("its role is now '{role}'; a failover is going on");
                return Err(transient(RequestError::Broken(why).of(&self.name)));
            }
        }
        Ok(connection)
    }

    /// The connection for requests, or a new one.
    pub fn take_connection(&mut self, timeout: &Timeout) -> Result<Connection> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(timeout)?,
        };
        connection.longest = self.longest;
        Ok(connection)
    }

    /// Sends a command on this connection and reads its reply, then puts the connection where it belongs.
    pub fn query_on(
        &mut self,
        mut connection: Connection,
        command: &Cmd,
        timeout: &Timeout,
    ) -> Result<Value, RequestError> {
        let answer = connection.query(command, timeout);
        // An error reply means that nothing was done.
        self.was_asked |= match &answer {
            Ok(Value::ServerError(_)) | Err(RequestError::Denied(_)) => false,
            Err(RequestError::LoginRefused { may_have_run, .. }) => *may_have_run,
            _ => true,
        };
        match &answer {
            Ok(_) => self.connection = Some(connection),
            Err(
                RequestError::TimedOut
                | RequestError::Interrupted
                | RequestError::LoginRefused { may_have_run: true, .. },
            ) if !connection.is_cut_off => self.in_flight.add(connection),
            Err(RequestError::Broken(_) | RequestError::TimedOut | RequestError::Interrupted) => {
                self.in_flight.is_in_doubt = true;
            }
            Err(_) => {}
        }
        answer
    }

    /// Sends a command and reads its reply. A connection that broke is replaced once, and the command is sent again:
    /// the owner token makes that safe.
    pub fn query(&mut self, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        self.has_repeated = false;
        loop {
            let connection = self.take_connection(timeout)?;
            match self.query_on(connection, command, timeout) {
                Err(RequestError::Broken(_)) if !self.has_repeated => self.has_repeated = true,
                answer => return answer.map_err(|error| error.of(&self.name)),
            }
        }
    }

    /// Sends a command whose reply is skipped later, if there is a connection.
    pub fn send(&mut self, command: &Cmd, timeout: &Timeout) {
        if self.connection.as_mut().is_some_and(|connection| connection.send(command, timeout).is_err()) {
            self.connection = None;
        }
    }

    fn await_answers(&mut self, timeout: &Timeout) -> Result<Vec<Value>> {
        let answers = self.in_flight.await_answers(&mut self.connection, timeout);
        answers.map_err(|error| error.of(&self.name))
    }

    /// Waits until the releases in flight are carried out, and what was sent on connections that broke. Returns true if
    /// there were any: a release on one of these may never have come.
    pub fn await_releases(&mut self, timeout: &Timeout) -> Result<bool> {
        self.await_answers(timeout)?;
        self.drain_broken(timeout)
    }

    /// Waits until all that is in flight is carried out, also what was sent on connections that broke. Returns the last
    /// answer of each other one.
    pub fn settle(&mut self, timeout: &Timeout) -> Result<Vec<Value>> {
        self.in_flight.mark_awaited();
        let answers = self.await_answers(timeout)?;
        self.drain_broken(timeout)?;
        Ok(answers)
    }

    /// Waits until the server has carried out what it received on connections that broke. Returns true if there
    /// were any.
    fn drain_broken(&mut self, timeout: &Timeout) -> Result<bool> {
        if !self.in_flight.is_in_doubt {
            return Ok(false);
        }
        // A server that hung carries out what came on all connections before it answers new ones a second time;
        // three, as it reads long requests in pieces of 16 kB.
        for _ in 0..3 {
            self.query(&redis::cmd("PING"), timeout)?;
        }
        self.in_flight.is_in_doubt = false;
        Ok(true)
    }
}

impl Routing for Server {
    fn name(&self) -> &str {
        &self.name
    }

    fn execute(&mut self, _: Target, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        self.query(command, timeout)
    }

    fn follow_up(&mut self, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        let broken = || RequestError::broken("the connection is gone").of(&self.name);
        let connection = self.connection.take().ok_or_else(broken)?;
        let reply = self.query_on(connection, command, timeout).map_err(|error| error.of(&self.name))?;
        accepted(reply, &self.name)
    }

    fn stream(
        &mut self,
        requests: &mut dyn Iterator<Item = Pipeline>,
        timeout: &Timeout,
        take: &mut dyn FnMut(Value),
    ) -> Result<()> {
        let mut connection = self.take_connection(timeout)?;
        connection.take_skipped();
        let exchange = || {
            for request in requests {
                let replies = connection.send_all(&request, timeout)?;
                connection.skip_replies(replies, timeout)?;
                connection.take_skipped().pop().into_iter().for_each(&mut *take);
            }
            connection.skip_replies(0, timeout)?;
            connection.take_skipped().pop().into_iter().for_each(&mut *take);
            Ok(())
        };
        exchange().map_err(|error: RequestError| error.of(&self.name))?;
        self.connection = Some(connection);
        Ok(())
    }

    fn reject_reply(&mut self) {
        self.connection = None;
    }

    fn has_repeated(&mut self) -> &mut bool {
        &mut self.has_repeated
    }

    fn set_longest(&mut self, bytes: u64) {
        self.longest = bytes;
    }

    fn known(&self, _: Target) -> Option<Endpoint> {
        Some(self.endpoint.clone())
    }

    fn primaries(&mut self, _: &Timeout) -> Result<Vec<Endpoint>> {
        Ok(vec![self.endpoint.clone()])
    }
}
