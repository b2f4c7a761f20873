//! One Redis or Valkey server.

mod access;
mod address;
mod connection;
mod doctor;
mod keys;
mod quorum;
mod refusal;
mod reply;
mod resolve;
mod script;
mod stream;
mod subscription;
mod tls;
mod waiter;

use std::time::Duration;

use redis::{Cmd, Value};

pub use self::address::Address;
use self::address::Servers;
use self::connection::{Connection, Failure};
pub use self::doctor::examine;
pub use self::quorum::Quorum;
use self::refusal::{Refusal, accepted, refusal};
use self::reply::Taken;
use self::script::{Call, items, text};
use self::waiter::Waiter;
use crate::lock::{
    Broken, Busy, FencingToken, Key, LockStatus, OwnerToken, Patience, Renewal, Request, Store, StoreError,
    Take,
};

pub struct Redis {
    address: Address,
    /// What messages call this store.
    name: String,
    connection: Option<Connection>,
    /// Connections on which a request was sent and not answered: it may still be carried out, and only
    /// what is sent behind it on the same connection is sure to come later.
    unanswered: Vec<Connection>,
    waiter: Option<Waiter>,
    /// Something was or may have been carried out.
    asked: bool,
    /// The last request was sent twice, as the connection broke after the first time.
    repeated: bool,
}

/// For a request whose answer does not matter.
const SETTLING: Duration = Duration::from_millis(100);

/// As many hung connections are worth a message.
const MOST_UNANSWERED: usize = 4;

impl Redis {
    /// A store that connects when it is asked for something.
    pub fn new(address: Address) -> Redis {
        Redis {
            name: address.to_string(),
            address,
            connection: None,
            unanswered: Vec::new(),
            waiter: None,
            asked: false,
            repeated: false,
        }
    }

    /// Calls a script. A connection that broke is replaced once, and the call repeated: the owner token
    /// makes that safe.
    fn call(&mut self, call: &Call, patience: &Patience) -> Result<Value, StoreError> {
        let reply = self.query(&call.by_hash(), patience)?;
        let reply = match &reply {
            Value::ServerError(error) if refusal(error) == Refusal::NoScript => {
                self.query(&call.in_full(), patience)?
            }
            _ => reply,
        };
        if matches!(&reply, Value::ServerError(error) if refusal(error) == Refusal::WrongType) {
            for key in call.keys() {
                let found = self.query(redis::cmd("TYPE").arg(key.as_str()), patience)?;
                let found = text(Some(&found));
                if found != "string" && found != "none" {
                    let found = format!("a {found}");
                    return Err(StoreError::NotALock { store: self.name.clone(), key: key.clone(), found });
                }
            }
        }
        accepted(reply, &self.name)
    }

    fn query(&mut self, command: &Cmd, patience: &Patience) -> Result<Value, StoreError> {
        self.repeated = false;
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect(patience)?,
            };
            let answer = connection.query(command, patience);
            // An error reply means that nothing was done, and so does a certificate that is not accepted: in
            // TLS 1.3 the server says that behind the handshake.
            self.asked |= !matches!(answer, Ok(Value::ServerError(_)) | Err(Failure::Denied(_)));
            match answer {
                Ok(reply) => {
                    self.connection = Some(connection);
                    return Ok(reply);
                }
                Err(Failure::Broken(_)) if !self.repeated => self.repeated = true,
                Err(Failure::Broken(why)) => return Err(self.unreachable(Failure::Broken(why))),
                Err(failure @ (Failure::Denied(_) | Failure::Unusable(_))) => {
                    return Err(self.unreachable(failure));
                }
                Err(failure) => {
                    self.unanswered.truncate(MOST_UNANSWERED - 1);
                    self.unanswered.insert(0, connection);
                    return Err(self.unreachable(failure));
                }
            }
        }
    }

    /// A new connection to the server that has the locks.
    fn connect(&self, patience: &Patience) -> Result<Connection, StoreError> {
        match &self.address.servers {
            Servers::One(endpoint) => self.address.access.connect(endpoint, &self.name, patience),
            Servers::Sentinel { .. } | Servers::Cluster(_) => Err(StoreError::Unusable {
                store: self.name.clone(),
                why: "this kind of server is not supported yet".to_owned(),
            }),
        }
    }

    /// What a reply says; one that says nothing known leaves the outcome unknown.
    fn understood<T>(&mut self, meaning: Option<T>) -> Result<T, StoreError> {
        meaning.ok_or_else(|| {
            self.connection = None;
            self.unreachable(Failure::Broken("its answer makes no sense; is it a Redis server?".to_owned()))
        })
    }

    fn unreachable(&self, failure: Failure) -> StoreError {
        failure.of(&self.name)
    }

    /// The names of all keys of which redlock keeps something here. By SCAN: KEYS blocks the server.
    fn known_keys(&mut self, patience: &Patience) -> Result<Vec<Key>, StoreError> {
        let mut keys = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan =
                redis::cmd("SCAN").arg(&cursor).arg("MATCH").arg("redlock:{*").arg("COUNT").arg(1000).take();
            let reply = self.query(&scan, patience)?;
            let mut page = items(accepted(reply, &self.name)?).into_iter();
            cursor = text(page.next().as_ref());
            let names = page.next().map(items).unwrap_or_default();
            keys.extend(names.iter().filter_map(|name| keys::key_of(&text(Some(name)))));
            if cursor.is_empty() || cursor == "0" {
                keys.sort();
                keys.dedup();
                return Ok(keys);
            }
        }
    }
}

/// The requests of one `take` differ in nothing but their keys.
fn take_call(first: &Request, requests: &[Request], mode: &str, ticket: &str) -> Call {
    let keys = requests.iter().map(|request| &request.key);
    Call::of_several(&script::TAKE, keys, Some(&first.token))
        .arg(first.ttl.as_millis())
        .arg(first.metadata.to_json())
        .arg(mode)
        .arg(ticket)
        .arg(first.min_hold.as_millis())
        .arg(reply::kind_name(first.kind))
}

fn renew_call(request: &Request, fence: Option<FencingToken>) -> Call {
    Call::new(&script::RENEW, &request.key, Some(&request.token))
        .arg(request.ttl.as_millis())
        .arg(request.metadata.to_json())
        .arg(fence.map(|fence| fence.to_string()).unwrap_or_default())
        .arg(reply::kind_name(request.kind))
}

impl Store for Redis {
    fn take(&mut self, requests: &[Request], patience: &Patience) -> Result<Take, StoreError> {
        let Some(first) = requests.first() else { return Ok(Take::Granted(Vec::new())) };
        let reply = self.call(&take_call(first, requests, "once", ""), patience)?;
        match self.understood(reply::taken(reply, requests))?? {
            Taken::Granted(fences) => Ok(Take::Granted(fences)),
            Taken::Busy { busy, .. } => Ok(Take::Busy(*busy)),
            // Only who stands in line is told so.
            Taken::Vanished { .. } => Ok(Take::Busy(Busy::by_unknown(first.key.clone()))),
        }
    }

    fn line_up(&mut self, request: &Request, patience: &Patience) -> Result<Take, StoreError> {
        let mut waiter = self.waiter.take().unwrap_or_else(|| Waiter::new(request.clone()));
        let answer = self.ask_in_line(&mut waiter, patience);
        self.waiter = Some(waiter);
        answer
    }

    fn wait(&mut self, patience: &Patience) -> Result<bool, StoreError> {
        match &mut self.waiter {
            Some(waiter) => waiter.listen(patience),
            None => Ok(true),
        }
    }

    fn get_ready(&mut self) {
        script::RELEASE.make_ready();
        if let Some(waiter) = &mut self.waiter
            && waiter.is_new()
        {
            // Changes nothing while we wait, and the server knows the script when we have the lock: see `settle`.
            let call = renew_call(&waiter.request, None);
            let _ = self.call(&call, &Patience::of(SETTLING));
        }
    }

    fn settle(&mut self) {
        // The end of our job is a moment at which the server has better to do than to end a subscription.
        let Some(waiter) = self.waiter.take() else { return };
        if let Some(connection) = &mut self.connection {
            // A renewal tells the next in line. Nobody waits for its answer, which is skipped in the end.
            let call = renew_call(&waiter.request, None).by_hash();
            if connection.send(&call, &Patience::of(SETTLING)).is_err() {
                self.connection = None;
            }
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Patience,
    ) -> Result<Renewal, StoreError> {
        let reply = self.call(&renew_call(request, fence), patience)?;
        self.understood(reply::renewed(reply))
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        patience: &Patience,
    ) -> Result<Vec<bool>, StoreError> {
        let call = Call::of_several(&script::RELEASE, keys, Some(token)).arg("");
        let hung = self.send_behind_unanswered(&call, patience);
        let reply = self.call(&call, patience)?;
        // Asked twice, "not held" means that the first one was carried out.
        let is_unsure = self.repeated || !hung.is_empty();
        let released = self.understood(reply::released(reply, keys.len()))?;
        Ok(released.into_iter().map(|released| released || is_unsure).collect())
    }

    fn withdraw(&mut self, requests: &[Request], patience: &Patience) -> Result<(), StoreError> {
        let Some(first) = requests.first().filter(|_| self.asked) else { return Ok(()) };
        let keys = requests.iter().map(|request| &request.key);
        let call = Call::of_several(&script::RELEASE, keys, Some(&first.token)).arg(Waiter::place(first));
        let hung = self.send_behind_unanswered(&call, patience);
        self.waiter = None;
        if hung.is_empty() {
            let reply = self.call(&call, patience)?;
            return self.understood(reply::released(reply, requests.len())).map(drop);
        }
        // Only an answer on the connection of the take itself says that the take is undone.
        for mut connection in hung {
            while connection.is_waiting() {
                connection.skip_reply(patience).map_err(|failure| self.unreachable(failure))?;
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        patience: &Patience,
    ) -> Result<Option<Duration>, StoreError> {
        let call = Call::new(&script::CHECK, key, Some(token));
        Ok(match self.call(&call, patience)? {
            Value::Int(left) => Some(reply::left(left).unwrap_or(Duration::MAX)),
            _ => None,
        })
    }

    fn status(&mut self, keys: &[Key], patience: &Patience) -> Result<Vec<LockStatus>, StoreError> {
        let all = keys.is_empty();
        let keys = if all { self.known_keys(patience)? } else { keys.to_vec() };
        let mut locks = Vec::new();
        for key in keys {
            let call = Call::new(&script::STATUS, &key, None);
            match self.call(&call, patience) {
                Ok(reply) => locks.push(reply::status(key, reply)),
                // Somebody put something else there; that must not hide the other locks.
                Err(StoreError::NotALock { .. }) if all => {}
                Err(error) => return Err(error),
            }
        }
        Ok(locks)
    }

    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        patience: &Patience,
    ) -> Result<Broken, StoreError> {
        let call = Call::new(&script::BREAK, key, token);
        let reply = self.call(&call, patience)?;
        self.understood(reply::broken(reply))
    }
}

impl Redis {
    /// Sends a call on every connection that has an answer out, and gives these connections back.
    fn send_behind_unanswered(&mut self, call: &Call, patience: &Patience) -> Vec<Connection> {
        let mut hung = std::mem::take(&mut self.unanswered);
        // In full: whether the server knows the script cannot be asked. A connection that does not
        // even take it is broken, and the request on it is dead.
        hung.retain_mut(|connection| connection.send(&call.in_full(), patience).is_ok());
        hung
    }

    /// Asks with a place in the queue. The wake-up channel is opened first: who cannot be woken counts
    /// as dead.
    fn ask_in_line(&mut self, waiter: &mut Waiter, patience: &Patience) -> Result<Take, StoreError> {
        if !waiter.is_listening() {
            let connection = self.connect(patience)?;
            waiter.listen_on(connection, patience).map_err(|failure| self.unreachable(failure))?;
        }
        let requests = std::slice::from_ref(&waiter.request);
        let call = take_call(&waiter.request, requests, waiter.mode(), waiter.ticket());
        let reply = self.call(&call, patience)?;
        let taken = self.understood(reply::taken(reply, requests))??;
        Ok(waiter.note(taken))
    }
}
