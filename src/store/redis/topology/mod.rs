//! The server that has a lock: the only one, the primary that Sentinels name, or the primary of the key's slot.

pub mod cluster;
mod redirect;
mod retry;
mod sentinel;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use self::cluster::Cluster;
use self::redirect::Redirect;
use self::retry::{attempt_of, retry};
use self::sentinel::Sentinels;
use self::servers::Servers;
use super::error_reply::{ErrorClass, accepted, classify, transient};
use super::executor::{Executor, Target};
use super::net::{Connection, Endpoint, RequestError};
use super::server::Server;
use super::url::{Address, ServerAddress};
use crate::clock::BootTime;
use crate::lock::{Key, Request, Result, StoreError, Timeout};

/// Runs commands on the server that has a lock. A single server is a topology of its own.
pub trait Topology: Executor + Send {
    /// Whether the server that answered last is the primary of this target: one that hung may have been replaced, and not
    /// know it yet. Only what a primary did counts.
    fn verify_primary(&mut self, _target: Target, _timeout: &Timeout) -> Result<bool> {
        Ok(true)
    }

    /// All primaries that have locks.
    fn primaries(&mut self, timeout: &Timeout) -> Result<Vec<Endpoint>>;

    /// The primary of a key, as far as that is known.
    fn known_primary(&self, key: &Key) -> Option<Endpoint>;

    /// Whether there is one server, which is always the primary.
    fn is_single(&self) -> bool {
        true
    }

    /// Whether keys may be on different servers.
    fn is_cluster(&self) -> bool {
        false
    }

    /// Another connection to the primary of a key, for a subscription.
    fn connect_listener(&mut self, key: &Key, timeout: &Timeout) -> Result<Connection>;

    /// Whether the last answer came from the server that the waiter listens to.
    fn is_listening_to_primary(&self) -> bool {
        true
    }

    /// The connection to listen on was of no use.
    fn suspect_listener(&mut self) {}

    /// Sends a command to the primary of this key whose reply is skipped later, if there is a connection.
    fn send(&mut self, key: &Key, command: &Cmd, timeout: &Timeout);

    /// Waits until all releases in flight are carried out. A server that is no longer the primary of any of these requests
    /// does not count.
    fn await_releases(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()>;

    /// The servers, each with what is in flight there.
    fn servers(&mut self) -> Vec<&mut Server>;

    /// Whether the last request was sent more than once, as there was no answer to it at first.
    fn has_repeated(&self) -> bool;
}

/// The topology at this address. It connects to nobody before the first request.
pub fn open(address: Address) -> Box<dyn Topology> {
    let name = address.to_string();
    let login = address.login;
    let (discovery, servers) = match address.servers {
        ServerAddress::One(endpoint) => return Box::new(Server::new(endpoint, Arc::new(login), name)),
        ServerAddress::Sentinel { sentinels, master } => {
            let sentinels = Sentinels::new(sentinels, master, &login, &name);
            (Discovery::Sentinels(Box::new(sentinels)), Servers::of_sentinels(login, &name))
        }
        ServerAddress::Cluster(seeds) => {
            let mut servers = Servers::of_cluster(login, &name);
            for seed in seeds {
                // A URL has fewer than there may be.
                let _ = servers.get(&seed);
            }
            (Discovery::Cluster(Cluster::default()), servers)
        }
    };
    Box::new(Replicated { discovery, servers, answered: None, listening: None, has_repeated: false })
}

impl Topology for Server {
    fn primaries(&mut self, _: &Timeout) -> Result<Vec<Endpoint>> {
        Ok(vec![self.endpoint().clone()])
    }

    fn known_primary(&self, _: &Key) -> Option<Endpoint> {
        Some(self.endpoint().clone())
    }

    fn connect_listener(&mut self, _: &Key, timeout: &Timeout) -> Result<Connection> {
        self.connect(timeout)
    }

    fn send(&mut self, _: &Key, command: &Cmd, timeout: &Timeout) {
        Server::send(self, command, timeout);
    }

    fn await_releases(&mut self, _: &[Request], timeout: &Timeout) -> Result<()> {
        Server::await_releases(self, timeout)
    }

    fn servers(&mut self) -> Vec<&mut Server> {
        vec![self]
    }

    fn has_repeated(&self) -> bool {
        self.has_repeated
    }
}

/// A topology in which the primary of a key changes.
struct Replicated {
    discovery: Discovery,
    servers: Servers,
    /// The server that answered last; true if an ASK redirect led to it.
    answered: Option<(Endpoint, bool)>,
    /// The server that the waiter listens to.
    listening: Option<Endpoint>,
    /// The last request was sent more than once.
    has_repeated: bool,
}

/// Who knows the primary.
enum Discovery {
    Sentinels(Box<Sentinels>),
    Cluster(Cluster),
}

/// A server of a cluster that takes longer for an answer may have been replaced.
const SUSPICIOUS: Duration = Duration::from_millis(300);

impl Topology for Replicated {
    fn verify_primary(&mut self, target: Target, timeout: &Timeout) -> Result<bool> {
        let Some((answered, is_redirected)) = self.answered.clone() else { return Ok(true) };
        let is_known = self.known(target).is_some();
        match &mut self.discovery {
            Discovery::Sentinels(sentinels) => sentinels.verify(&answered, timeout)?,
            Discovery::Cluster(_) if is_redirected || is_known => return Ok(true),
            Discovery::Cluster(cluster) => {
                cluster.refresh_slots(&mut self.servers, &attempt_of(timeout))?;
            }
        }
        Ok(self.is_primary_for(&answered, target))
    }

    fn primaries(&mut self, timeout: &Timeout) -> Result<Vec<Endpoint>> {
        let store = self.servers.store().to_owned();
        retry(&store, timeout, || match &mut self.discovery {
            Discovery::Sentinels(sentinels) => sentinels.refresh(timeout).map(|primary| Some(vec![primary])),
            Discovery::Cluster(cluster) => {
                cluster.refresh_slots(&mut self.servers, &attempt_of(timeout))?;
                Ok(Some(cluster.primaries()))
            }
        })
    }

    fn known_primary(&self, key: &Key) -> Option<Endpoint> {
        self.known(Target::Key(key))
    }

    fn is_single(&self) -> bool {
        false
    }

    fn is_cluster(&self) -> bool {
        matches!(self.discovery, Discovery::Cluster(_))
    }

    fn connect_listener(&mut self, key: &Key, timeout: &Timeout) -> Result<Connection> {
        let store = self.servers.store().to_owned();
        retry(&store, timeout, || {
            let timeout = attempt_of(timeout);
            let primary = self.primary_of(Target::Key(key), &timeout)?;
            let connection = self.servers.get(&primary)?.connect(&timeout);
            let connection = connection.map_err(|error| self.failed(&primary, error))?;
            self.listening = Some(primary);
            Ok(Some(connection))
        })
    }

    fn is_listening_to_primary(&self) -> bool {
        match &self.answered {
            Some((server, is_redirected)) => *is_redirected || self.listening.as_ref() == Some(server),
            None => true,
        }
    }

    fn suspect_listener(&mut self) {
        if let Some(server) = self.listening.clone() {
            self.suspect(&server);
        }
    }

    fn send(&mut self, key: &Key, command: &Cmd, timeout: &Timeout) {
        if let Some(primary) = self.known_primary(key)
            && let Ok(server) = self.servers.get(&primary)
        {
            server.send(command, timeout);
        }
    }

    fn await_releases(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        let mut outcome = Ok(());
        let awaited = self.servers.iter_mut().filter(|server| server.in_flight.has_awaited());
        let awaited: Vec<Endpoint> = awaited.map(|server| server.endpoint().clone()).collect();
        for endpoint in awaited {
            let mut targets = requests.iter().map(|request| Target::Key(&request.key));
            let is_primary = targets.any(|target| self.is_primary_for(&endpoint, target));
            let server = self.servers.get(&endpoint)?;
            if is_primary {
                outcome = outcome.and(server.await_releases(timeout));
            } else {
                server.in_flight.forget_awaited();
            }
        }
        outcome
    }

    fn servers(&mut self) -> Vec<&mut Server> {
        self.servers.iter_mut().collect()
    }

    fn has_repeated(&self) -> bool {
        self.has_repeated
    }
}

impl Executor for Replicated {
    fn execute(&mut self, target: Target, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        self.has_repeated = false;
        let mut redirected = None;
        let store = self.servers.store().to_owned();
        retry(&store, timeout, || self.attempt(target, &mut redirected, command, &attempt_of(timeout)))
    }

    fn follow_up(&mut self, command: &Cmd, timeout: &Timeout) -> Result<Value> {
        let Some((answered, _)) = self.answered.clone() else {
            return Err(RequestError::Broken("the connection is gone".to_owned()).of(self.servers.store()));
        };
        let reply = self.servers.get(&answered)?.follow_up(command, timeout);
        if reply.is_err() {
            self.suspect(&answered);
        }
        reply
    }

    fn reject_reply(&mut self) {
        if let Some((answered, _)) = self.answered.clone() {
            self.suspect(&answered);
            if let Ok(server) = self.servers.get(&answered) {
                server.disconnect();
            }
        }
    }

    fn name(&self) -> &str {
        self.servers.store()
    }
}

impl Replicated {
    fn known(&self, target: Target) -> Option<Endpoint> {
        match (target, &self.discovery) {
            (Target::Server(server), _) => Some(server.clone()),
            (_, Discovery::Sentinels(sentinels)) => sentinels.primary().cloned(),
            (Target::Key(key), Discovery::Cluster(cluster)) => cluster.primary_of(key).cloned(),
            (Target::Any, Discovery::Cluster(_)) => None,
        }
    }

    /// The primary of this target; asks for it where it is not known.
    fn primary_of(&mut self, target: Target, timeout: &Timeout) -> Result<Endpoint> {
        if let Some(primary) = self.known(target) {
            return Ok(primary);
        }
        self.refresh(timeout)?;
        self.known(target).ok_or_else(|| {
            let why = "none of its servers has the slot of the key".to_owned();
            transient(RequestError::Broken(why).of(self.servers.store()))
        })
    }

    fn refresh(&mut self, timeout: &Timeout) -> Result<()> {
        match &mut self.discovery {
            Discovery::Sentinels(sentinels) => sentinels.refresh(timeout).map(drop),
            Discovery::Cluster(cluster) => cluster.refresh_slots(&mut self.servers, timeout),
        }
    }

    /// Whether nothing says that this server is not the primary.
    fn is_primary_for(&self, server: &Endpoint, target: Target) -> bool {
        self.known(target).is_none_or(|primary| primary == *server)
    }

    /// The server failed: before the next request its primary is asked for again.
    fn suspect(&mut self, server: &Endpoint) {
        match &mut self.discovery {
            Discovery::Sentinels(sentinels) => sentinels.suspect(),
            Discovery::Cluster(cluster) => cluster.suspect(server),
        }
    }

    /// The server failed; soon there may be another one.
    fn failed(&mut self, server: &Endpoint, error: StoreError) -> StoreError {
        self.suspect(server);
        transient(error)
    }

    /// Sends the command once: to the primary, or where an ASK redirect leads.
    fn attempt(
        &mut self,
        target: Target,
        redirected: &mut Option<Endpoint>,
        command: &Cmd,
        timeout: &Timeout,
    ) -> Result<Option<Value>> {
        let is_redirected = redirected.is_some();
        let endpoint = match redirected.take() {
            Some(endpoint) => endpoint,
            None => self.primary_of(target, timeout)?,
        };
        let reply = self.query(&endpoint, is_redirected, command, timeout)?;
        self.answered = Some((endpoint.clone(), is_redirected));
        let Value::ServerError(error) = &reply else { return Ok(Some(reply)) };
        match (Redirect::read(error, &endpoint), &mut self.discovery) {
            (Some(Redirect::Ask { to }), Discovery::Cluster(_)) => {
                self.servers.get(&to)?;
                *redirected = Some(to);
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
            ErrorClass::Transient => self.suspect(&endpoint),
            ErrorClass::NotPrimary => self.reject_reply(),
            _ => return Ok(Some(reply)),
        }
        accepted(reply, &self.servers.name_of(&endpoint)).map(Some).map_err(transient)
    }

    fn query(
        &mut self,
        endpoint: &Endpoint,
        is_redirected: bool,
        command: &Cmd,
        timeout: &Timeout,
    ) -> Result<Value> {
        let name = self.servers.name_of(endpoint);
        let server = self.servers.get(endpoint)?;
        let mut connection = match server.take_connection(timeout) {
            Ok(connection) => connection,
            Err(error) => return Err(self.failed(endpoint, error)),
        };
        let sent = BootTime::now();
        let mut answer = Ok(Value::Okay);
        if is_redirected {
            answer = connection.send(&redis::cmd("ASKING"), timeout).map(|()| Value::Okay);
        }
        if answer.is_ok() {
            answer = server.query_on(connection, command, timeout);
        }
        if answer.is_err() {
            self.has_repeated = true;
        } else if self.is_cluster() && sent.plus(SUSPICIOUS).has_passed() {
            self.suspect(endpoint);
        }
        answer.map_err(|error| self.failed(endpoint, error.of(&name)))
    }
}
