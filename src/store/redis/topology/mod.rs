//! The way to the server that has a lock.

pub mod cluster;
mod guide;
mod retry;
pub mod sentinel;

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Value};

use self::cluster::Cluster;
use self::guide::Discovery;
use self::retry::part_of;
use self::sentinel::Sentinels;
use super::login::Login;
use super::net::connection::{Connection, LONGEST_REPLY};
use super::net::endpoint::Endpoint;
use super::net::failure::RequestError;
use super::refusal::accepted;
use super::url::{Address, Servers};
use crate::lock::{Key, Request, StoreError, Timeout};

/// Sends requests to the server in charge, and finds it where it is not always the same one.
pub struct Topology {
    access: Login,
    /// What messages call the store.
    pub name: String,
    nodes: Vec<Node>,
    /// Where in `nodes` those are that were heard of.
    index: BTreeMap<Endpoint, NodeId>,
    guide: Discovery,
    /// Connections on which a request was sent and not answered: it may still be carried out, and only
    /// what is sent behind it on the same connection is sure to come later.
    unanswered: Vec<Unanswered>,
    /// Where the waiter listens.
    listening: NodeId,
    /// Who answered last, and whether only because the one in charge said so.
    answered: NodeId,
    answered_aside: bool,
    /// Something was or may have been carried out.
    pub asked: bool,
    /// The last request was sent more than once, as there was no answer to it at first.
    pub repeated: bool,
    /// A reply of more bytes than this is an error.
    pub longest: u64,
}

/// A server that holds locks; all that were heard of are remembered.
struct Node {
    endpoint: Endpoint,
    connection: Option<Connection>,
}

/// Its index.
pub type NodeId = usize;

/// Where a request has to go.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    Key(&'a Key),
    Node(NodeId),
}

/// A connection to a server that owes an answer on it.
pub type Unanswered = (NodeId, Connection);

/// A cluster of more servers than this is none; "up to 1000 nodes", says its specification.
const MOST_NODES: usize = 2048;
/// As many hung connections are worth a message.
const MOST_UNANSWERED: usize = 4;

impl Topology {
    /// Connects to nobody before the first request.
    pub fn new(address: Address) -> Topology {
        let name = address.to_string();
        let access = address.access;
        let (nodes, guide) = match address.servers {
            Servers::One(endpoint) => (vec![endpoint], Discovery::None),
            Servers::Sentinel { sentinels, master } => (
                Vec::new(),
                Discovery::Sentinels(Box::new(Sentinels::new(sentinels, master, &access, &name))),
            ),
            Servers::Cluster(seeds) => (seeds, Discovery::Cluster(Cluster::default())),
        };
        let index = match &guide {
            Discovery::None => BTreeMap::new(),
            _ => nodes.iter().cloned().enumerate().map(|(node, endpoint)| (endpoint, node)).collect(),
        };
        let nodes = nodes.into_iter().map(|endpoint| Node { endpoint, connection: None }).collect();
        Topology {
            access,
            name,
            nodes,
            index,
            guide,
            unanswered: Vec::new(),
            listening: 0,
            answered: 0,
            answered_aside: false,
            asked: false,
            repeated: false,
            longest: LONGEST_REPLY,
        }
    }

    /// Sends a command and reads its reply. A connection that broke is replaced once, and the command sent
    /// again: the owner token makes that safe. Where there is a guide, that goes on as long as the patience.
    pub fn query(&mut self, place: Target, command: &Cmd, patience: &Timeout) -> Result<Value, StoreError> {
        self.repeated = false;
        if !matches!(self.guide, Discovery::None) {
            let mut aside = None;
            return self.persist(patience, |route| route.attempt(place, &mut aside, command, patience));
        }
        loop {
            let mut connection = self.connected(0, patience)?;
            let answer = connection.query(command, patience);
            match self.noted(0, connection, answer) {
                Err(RequestError::Broken(_)) if !self.repeated => self.repeated = true,
                answer => return answer.map_err(|failure| failure.of(&self.name)),
            }
        }
    }

    /// Sends a command behind the last one: on the same connection, or not at all.
    pub fn follow_up(&mut self, command: &Cmd, patience: &Timeout) -> Result<Value, StoreError> {
        let node = self.answered;
        let name = self.node_name(node);
        let broken = || RequestError::Broken("the connection is gone".to_owned()).of(&name);
        let mut connection = self.nodes[node].connection.take().ok_or_else(broken)?;
        let answer = connection.query(command, patience);
        let reply = self.noted(node, connection, answer).map_err(|failure| {
            self.suspect(node);
            failure.of(&name)
        })?;
        accepted(reply, &name)
    }

    /// Sends a command of which nobody reads the reply, if there is a connection for it.
    pub fn tell(&mut self, place: Target, command: &Cmd, patience: &Timeout) {
        let Some(node) = self.known(place) else { return };
        let connection = &mut self.nodes[node].connection;
        if connection.as_mut().is_some_and(|connection| connection.send(command, patience).is_err()) {
            *connection = None;
        }
    }

    /// Another connection to the server in charge, to listen on.
    pub fn connect_beside(&mut self, place: Target, patience: &Timeout) -> Result<Connection, StoreError> {
        if matches!(self.guide, Discovery::None) {
            return self.open(0, patience);
        }
        self.persist(patience, |route| {
            let share = part_of(patience);
            let node = route.find(place, &share)?;
            let connection = route.open(node, &share).map_err(|why| route.failed(node, why))?;
            route.listening = node;
            Ok(Some(connection))
        })
    }

    /// Whether the last answer came from the server that [`Topology::connect_beside`] led to.
    pub fn is_beside(&self) -> bool {
        self.listening == self.answered || self.answered_aside
    }

    /// The connection that [`Topology::connect_beside`] made was of no use.
    pub fn suspect_beside(&mut self) {
        self.suspect(self.listening);
    }

    /// The answer made no sense.
    pub fn distrust(&mut self) {
        self.nodes[self.answered].connection = None;
        self.suspect(self.answered);
    }

    /// Sends commands on every connection that has an answer out, and on these, and gives all of them away.
    pub fn send_behind_unanswered(
        &mut self,
        these: Vec<Unanswered>,
        commands: impl Iterator<Item = Cmd> + Clone,
        patience: &Timeout,
    ) -> Vec<Unanswered> {
        let mut hung = std::mem::take(&mut self.unanswered);
        hung.extend(these);
        // A connection that does not even take it is broken, and the request on it is dead.
        hung.retain_mut(|(_, connection)| {
            commands.clone().all(|command| connection.send(&command, patience).is_ok())
        });
        hung
    }

    /// Reads what is owed on these connections: only that says that what was sent is carried out. Where the server
    /// was replaced, nobody is interested any more. Returns those that owe something when the patience ends.
    pub fn await_answers(
        &mut self,
        hung: Vec<Unanswered>,
        requests: &[Request],
        patience: &Timeout,
    ) -> (Vec<Unanswered>, Result<(), StoreError>) {
        let (mut left, mut outcome) = (Vec::new(), Ok(()));
        for (node, mut connection) in hung {
            if !self.has_the_say(node, requests.iter().map(|request| Target::Key(&request.key))) {
                continue;
            }
            if let Err(failure) = connection.skip_replies(patience) {
                if matches!(failure, RequestError::TimedOut | RequestError::Interrupted) {
                    left.push((node, connection));
                }
                outcome = outcome.and(Err(failure.of(&self.name)));
            }
        }
        (left, outcome)
    }

    /// Whether something was sent that has no answer yet.
    pub fn owes_answers(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Lets go of connections whose answers have come by now.
    pub fn forget_answered(&mut self) {
        let now = Timeout::of(Duration::ZERO);
        self.unanswered.retain_mut(|(_, connection)| {
            matches!(connection.skip_replies(&now), Err(RequestError::TimedOut))
        });
    }

    /// The connection to the only server there is, when there is no guide.
    pub fn line(&mut self) -> Option<&mut Option<Connection>> {
        self.nodes.first_mut().map(|node| &mut node.connection)
    }

    /// Hands over the connections that have an answer out.
    pub fn take_unanswered(&mut self) -> Vec<Unanswered> {
        std::mem::take(&mut self.unanswered)
    }

    /// Whether the server in charge can change while we run.
    pub fn is_guided(&self) -> bool {
        !matches!(self.guide, Discovery::None)
    }

    /// Whether keys may be on different servers.
    pub fn is_cluster(&self) -> bool {
        matches!(self.guide, Discovery::Cluster(_))
    }

    /// Puts the connection where it belongs after this answer.
    fn noted(
        &mut self,
        node: NodeId,
        connection: Connection,
        answer: Result<Value, RequestError>,
    ) -> Result<Value, RequestError> {
        // An error reply means that nothing was done.
        self.asked |= match &answer {
            Ok(Value::ServerError(_)) | Err(RequestError::Denied(_)) => false,
            Err(RequestError::Refused(_)) => connection.is_astray(),
            _ => true,
        };
        match &answer {
            Ok(_) => self.nodes[node].connection = Some(connection),
            Err(RequestError::Broken(_) | RequestError::Denied(_) | RequestError::Unusable(_)) => {}
            Err(RequestError::Refused(_)) if !connection.is_astray() => {}
            Err(RequestError::TimedOut | RequestError::Interrupted) if connection.is_torn() => {}
            Err(RequestError::TimedOut | RequestError::Interrupted | RequestError::Refused(_)) => {
                self.unanswered.truncate(MOST_UNANSWERED - 1);
                self.unanswered.insert(0, (node, connection));
            }
        }
        answer
    }

    /// The connection to this server, or a new one.
    fn connected(&mut self, node: NodeId, patience: &Timeout) -> Result<Connection, StoreError> {
        let mut connection = match self.nodes[node].connection.take() {
            Some(connection) => connection,
            None => self.open(node, patience)?,
        };
        connection.longest = self.longest;
        Ok(connection)
    }

    fn open(&mut self, node: NodeId, patience: &Timeout) -> Result<Connection, StoreError> {
        let endpoint = &self.nodes[node].endpoint;
        match &self.guide {
            Discovery::None => self.access.connect(endpoint, &self.name, patience),
            Discovery::Cluster(_) => self.access.connect(endpoint, &self.node_name(node), patience),
            Discovery::Sentinels(_) => {
                let name = self.node_name(node);
                let mut connection = self.access.connect(endpoint, &name, patience)?;
                Sentinels::expect_master(&mut connection, &name, patience)?;
                Ok(connection)
            }
        }
    }

    /// The server that was heard of; an error where there are more than can be.
    fn node(&mut self, endpoint: Endpoint) -> Result<NodeId, StoreError> {
        if let Some(node) = self.index.get(&endpoint) {
            return Ok(*node);
        }
        let node = self.nodes.len();
        if node >= MOST_NODES {
            let why = format!("its servers name more than {MOST_NODES} others; is it a Redis Cluster?");
            return Err(RequestError::Broken(why).of(&self.name));
        }
        self.index.insert(endpoint.clone(), node);
        self.nodes.push(Node { endpoint, connection: None });
        Ok(node)
    }

    /// What messages call a server.
    fn node_name(&self, node: NodeId) -> String {
        match self.guide {
            Discovery::None => self.name.clone(),
            Discovery::Sentinels(_) => format!("{}, the master of {}", self.nodes[node].endpoint, self.name),
            Discovery::Cluster(_) => format!("{} of {}", self.nodes[node].endpoint, self.name),
        }
    }
}
