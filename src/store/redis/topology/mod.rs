//! The server that has a lock: the only one, the primary that Sentinels name, or the primary of the key's slot.

pub mod cluster;
mod discovery;
mod redirect;
mod retry;
mod sentinel;
mod servers;

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use self::cluster::Cluster;
use self::discovery::Discovery;
use self::redirect::Redirect;
use self::retry::{attempt_of, retry};
use self::sentinel::Sentinels;
use self::servers::{MASTER, Servers};
use super::keys::INDEX;
use super::reply::{ErrorClass, accepted, classify, transient};
use super::server::Server;
use super::url::{RedisAddress, ServerAddress};
use crate::clock::BootTime;
use crate::lock::{Key, Request, Result, StoreError, Timeout};
use crate::store::net::{Endpoint, RequestError};
use crate::store::redis::connection::Connection;

pub struct Topology {
    discovery: Discovery,
    servers: Servers,
    /// The server that answered last; true if an ASK redirect led to it.
    answered: Option<(Endpoint, bool)>,
    /// Where an ASK redirect leads: for the next attempt only.
    redirected: Option<Endpoint>,
    /// The server that the waiter listens to.
    listening: Option<Endpoint>,
    /// The last request was sent more than once, as there was no answer to it at first.
    pub has_repeated: bool,
    /// Why a server failed that the current request was sent to.
    failure: Option<StoreError>,
}

#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// The primary that has this key.
    Key(&'a Key),
    Server(&'a Endpoint),
    /// A command about nothing.
    Any,
}

/// A server of a cluster that takes longer for an answer may have been replaced.
const SUSPICIOUS: Duration = Duration::from_millis(300);

/// Reads a reply as that to CLUSTER SLOTS.
#[cfg(any(test, fuzzing))]
pub fn read_slots(reply: Value) {
    let from = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 6379 };
    let _ = cluster::decode_slots(reply, &from, "a cluster");
}

impl Topology {
    /// The topology at this address. It connects to nobody before the first request.
    pub fn open(address: RedisAddress) -> Topology {
        let name = address.to_string();
        let login = address.login;
        let mut answered = None;
        let (discovery, seeds, role) = match address.servers {
            ServerAddress::One(endpoint) => {
                answered = Some((endpoint.clone(), false));
                (Discovery::Single(endpoint.clone()), vec![endpoint], None)
            }
            ServerAddress::Sentinel { sentinels, master } => {
                let sentinels = Sentinels::new(sentinels, master, &login, &name);
                (Discovery::Sentinels(Box::new(sentinels)), Vec::new(), Some(MASTER))
            }
            ServerAddress::Cluster(seeds) => (Discovery::Cluster(Cluster::default()), seeds, Some("")),
        };
        let mut servers = Servers::new(login, name, role);
        for seed in seeds {
            // A URL has fewer than there may be.
            let _ = servers.get(&seed);
        }
        let listening = answered.clone().map(|(endpoint, _)| endpoint);
        Topology {
            discovery,
            servers,
            answered,
            redirected: None,
            listening,
            has_repeated: false,
            failure: None,
        }
    }

    /// Sends a command and reads its reply, which may be an error.
    pub fn execute(&mut self, target: Target, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        self.has_repeated = false;
        if self.is_single() {
            let server = self.single()?;
            let reply = server.query(command, timeout);
            self.has_repeated = server.has_repeated;
            return reply;
        }
        (self.redirected, self.failure) = (None, None);
        let store = self.name().to_owned();
        retry(&store, timeout, || self.attempt(target, command, &attempt_of(timeout)))
    }

    /// Sends a command behind the last one: on the same connection, or not at all.
    pub fn follow_up(&mut self, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        let Some((answered, _)) = self.answered.clone() else {
            return Err(RequestError::broken("the connection is gone").of(self.name()));
        };
        let reply = self.servers.get(&answered)?.follow_up(command, timeout);
        if reply.is_err() {
            self.discovery.suspect(&answered);
        }
        reply
    }

    /// Sends requests behind the last one, and hands the last reply to each on. They only read: after an error they may be
    /// sent again.
    pub fn stream(
        &mut self,
        requests: impl Iterator<Item = Pipeline>,
        timeout: &Timeout,
        take: impl FnMut(Value),
    ) -> Result<()> {
        let server = match &self.answered {
            _ if self.is_single() => self.single()?,
            Some((answered, _)) => self.servers.get(&answered.clone())?,
            None => return Err(RequestError::broken("the connection is gone").of(self.name())),
        };
        server.stream(requests, timeout, take)
    }

    /// Sends a command to the primary of this key whose reply is skipped later, if there is a connection.
    pub fn send(&mut self, key: &Key, command: &Cmd, timeout: &Timeout) {
        if let Some(primary) = self.known(Target::Key(key))
            && let Ok(server) = self.servers.get(&primary)
        {
            server.send(command, timeout);
        }
    }

    /// The last reply made no sense: its connection is not used again.
    pub fn reject_reply(&mut self) {
        if let Some((answered, _)) = self.answered.clone() {
            self.discovery.suspect(&answered);
            if let Ok(server) = self.servers.get(&answered) {
                server.connection = None;
            }
        }
    }

    pub fn name(&self) -> &str {
        self.servers.store()
    }

    /// Whether the server that answered last is the primary of this target: one that hung may have been replaced, and not
    /// know it yet. Only what a primary did counts.
    pub fn verify_primary(&mut self, target: Target, timeout: &Timeout) -> Result<bool> {
        let Some((answered, is_redirected)) = self.answered.clone() else { return Ok(true) };
        let is_known = self.known(target).is_some();
        match &mut self.discovery {
            Discovery::Single(_) => return Ok(true),
            Discovery::Sentinels(sentinels) => sentinels.verify(&answered, timeout)?,
            Discovery::Cluster(_) if is_redirected || is_known => return Ok(true),
            Discovery::Cluster(_) => self.refresh(&attempt_of(timeout))?,
        }
        Ok(self.is_primary_for(&answered, target))
    }

    pub fn primaries(&mut self, timeout: &Timeout) -> Result<Vec<Endpoint>> {
        let store = self.name().to_owned();
        retry(&store, timeout, || self.discovery.primaries(&mut self.servers, timeout).map(Some))
    }

    /// The primary of this target, as far as that is known.
    pub fn known(&self, target: Target) -> Option<Endpoint> {
        self.discovery.known(target)
    }

    pub fn is_single(&self) -> bool {
        matches!(self.discovery, Discovery::Single(_))
    }

    /// The only server; an error where there may be several.
    pub fn single(&mut self) -> Result<&mut Server> {
        match &self.discovery {
            Discovery::Single(endpoint) => self.servers.get(endpoint),
            _ => Err(RequestError::broken("it is not one server").of(self.name())),
        }
    }

    /// The name of the index of the locks, empty where there is none: the servers of a cluster have no key in common.
    pub fn index(&self) -> &'static str {
        if self.is_cluster() { "" } else { INDEX }
    }

    /// Whether keys may be on different servers.
    pub fn is_cluster(&self) -> bool {
        matches!(self.discovery, Discovery::Cluster(_))
    }

    /// Another connection to the primary of a key, for a subscription.
    pub fn connect_listener(&mut self, key: &Key, timeout: &Timeout) -> Result<Connection> {
        if self.is_single() {
            return self.single()?.connect(timeout);
        }
        let store = self.name().to_owned();
        retry(&store, timeout, || {
            let timeout = attempt_of(timeout);
            let primary = self.primary_of(Target::Key(key), &timeout)?;
            let connection = self.servers.get(&primary)?.connect(&timeout);
            let connection = connection.map_err(|error| self.failed(&primary, error))?;
            self.listening = Some(primary);
            Ok(Some(connection))
        })
    }

    /// Whether the last answer came from the server that the waiter listens to.
    pub fn is_listening_to_primary(&self) -> bool {
        match &self.answered {
            Some((server, is_redirected)) => *is_redirected || self.listening.as_ref() == Some(server),
            None => true,
        }
    }

    /// The connection to listen on was of no use.
    pub fn suspect_listener(&mut self) {
        if let Some(server) = self.listening.clone() {
            self.discovery.suspect(&server);
        }
    }

    /// Waits until all releases in flight are carried out, see [`Server::await_releases`]. A server that is no longer the
    /// primary of any of these requests does not count.
    pub fn await_releases(&mut self, requests: &[Request], timeout: &Timeout) -> Result<bool> {
        let mut outcome = Ok(false);
        let awaited = self.servers.iter_mut().filter(|server| server.in_flight.has_awaited());
        let awaited: Vec<Endpoint> = awaited.map(|server| server.endpoint.clone()).collect();
        for endpoint in awaited {
            let mut targets = requests.iter().map(|request| Target::Key(&request.key));
            let is_primary = targets.any(|target| self.is_primary_for(&endpoint, target));
            let server = self.servers.get(&endpoint)?;
            if is_primary {
                let broken = server.await_releases(timeout);
                outcome = outcome.and_then(|others| Ok(broken? || others));
            } else {
                server.in_flight.forget_awaited();
            }
        }
        outcome
    }

    /// The servers, each with what is in flight there.
    pub fn servers(&mut self) -> impl Iterator<Item = &mut Server> {
        self.servers.iter_mut()
    }

    /// Whether a request was or may have been carried out anywhere.
    pub fn was_asked(&mut self) -> bool {
        self.servers().any(|server| server.was_asked)
    }

    /// From now on the answers to all requests in flight are awaited, as after a release.
    pub fn mark_awaited(&mut self) {
        self.servers().for_each(|server| server.in_flight.mark_awaited());
    }

    /// The primary of this target; asks for it where it is not known.
    fn primary_of(&mut self, target: Target, timeout: &Timeout) -> Result<Endpoint> {
        if let Some(primary) = self.known(target) {
            return Ok(primary);
        }
        self.refresh(timeout)?;
        self.known(target).ok_or_else(|| {
            let why = "none of its servers has the slot of the key".to_owned();
            transient(RequestError::Broken(why).of(self.name()))
        })
    }

    fn refresh(&mut self, timeout: &Timeout) -> Result<()> {
        self.discovery.refresh(&mut self.servers, timeout).map_err(|error| match &self.failure {
            // Where no node says what takes the place of a server, its failure is the news.
            Some(failure) if self.is_cluster() && error.is_unknown() => failure.clone(),
            _ => error,
        })
    }

    /// Whether nothing says that this server is not the primary.
    fn is_primary_for(&self, server: &Endpoint, target: Target) -> bool {
        self.known(target).is_none_or(|primary| primary == *server)
    }

    /// The server failed; soon there may be another one.
    fn failed(&mut self, server: &Endpoint, error: StoreError) -> StoreError {
        self.discovery.suspect(server);
        self.failure = Some(transient(error.clone()));
        transient(error)
    }

    /// Sends the command once: to the primary, or where an ASK redirect leads.
    fn attempt(&mut self, target: Target, command: &Cmd, timeout: &Timeout) -> Result<Option<Value>> {
        let to = match self.redirected.take() {
            Some(endpoint) => (endpoint, true),
            None => (self.primary_of(target, timeout)?, false),
        };
        let reply = self.query(&to, command, timeout)?;
        let endpoint = to.0.clone();
        self.answered = Some(to);
        let Value::ServerError(error) = &reply else { return Ok(Some(reply)) };
        match (Redirect::read(error, &endpoint), &mut self.discovery) {
            (Some(Redirect::Ask { to }), Discovery::Cluster(_)) => {
                self.servers.get(&to)?;
                self.redirected = Some(to);
                return Ok(None);
            }
            (Some(Redirect::Moved { slot, to }), Discovery::Cluster(cluster)) => {
                self.servers.get(&to)?;
                cluster.moved(slot, to);
                return Ok(None);
            }
            _ => {}
        }
        match classify(error) {
            ErrorClass::Transient => self.discovery.suspect(&endpoint),
            ErrorClass::NotPrimary => self.reject_reply(),
            _ => return Ok(Some(reply)),
        }
        accepted(reply, &self.servers.name_of(&endpoint)).map(Some).map_err(transient)
    }

    fn query(&mut self, to: &(Endpoint, bool), command: &Cmd, timeout: &Timeout) -> Result<Value> {
        let (endpoint, is_redirected) = to;
        let name = self.servers.name_of(endpoint);
        let server = self.servers.get(endpoint)?;
        let mut connection = match server.take_connection(timeout) {
            Ok(connection) => connection,
            Err(error) => return Err(self.failed(endpoint, error)),
        };
        let sent = BootTime::now();
        let asked = match *is_redirected {
            true => connection.send(&redis::cmd("ASKING"), timeout),
            false => Ok(()),
        };
        let answer = asked.and_then(|()| server.query_on(connection, command, timeout));
        if answer.is_err() {
            self.has_repeated = true;
        } else if self.is_cluster() && sent.plus(SUSPICIOUS).has_passed() {
            self.discovery.suspect(endpoint);
        }
        answer.map_err(|error| self.failed(endpoint, error.of(&name)))
    }
}
