//! The members of a cluster: a connection to one of them, and another one when that does not answer.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use hyper::client::conn::http2;
use hyper::http::Uri;
use tonic::Status;
use tonic::metadata::{Ascii, MetadataValue};

use super::client::EtcdClient;
use super::layout::EtcdAddress;
use super::runtime::Runtime;
use super::socket::{Allowance, InRuntime, Refusal, Socket};
use crate::clock::BootTime;
use crate::lock::{StoreError, Timeout};
use crate::store::attempts::one_after_the_other;
use crate::store::call_error::CallError;
use crate::store::credentials::Password;
use crate::store::net::Endpoint;
use crate::store::net::RequestError;
use crate::store::net::stream::Stream;

/// The members of a cluster. Nothing is connected, and nothing runs, before the first call.
pub struct EtcdMembers {
    address: EtcdAddress,
    name: String,
    /// The member that is asked next.
    current: usize,
    client: Option<EtcdClient>,
    /// It is an etcd: it answered on this connection.
    has_answered: bool,
    /// What the member said when it ended the connection.
    refusal: Refusal,
    allowance: Allowance,
    /// How many connections there were.
    connections: u32,
    /// How many requests were sent and had no answer, and were made again or given up.
    unanswered: u32,
    /// No answer has come since a call that began then. Such a call says little about a member, as its time may have been short.
    silent_since: Option<BootTime>,
    /// Of the login, which counts at every member.
    token: Option<MetadataValue<Ascii>>,
    /// The members know no users: a login would be refused.
    needs_no_login: bool,
    /// Behind the client: the connection ends before the runtime does.
    runtime: Option<Runtime>,
}

/// A member is left for another one, or its connection for a new one, when it gave no answer for so long. A call may have
/// had less time than a member that is well needs.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same for a member that is alone: a new connection does not make it quicker.
const PATIENCE_ALONE: Duration = Duration::from_secs(2);
/// Of a server that ends the connection at the first request.
const NO_ETCD: &str = "it ended the connection without an answer; is this etcd's port for clients, and with TLS a URL of etcds://?";

impl EtcdMembers {
    pub fn new(address: EtcdAddress) -> EtcdMembers {
        let name = address.to_string();
        EtcdMembers {
            address,
            name,
            current: 0,
            client: None,
            has_answered: false,
            refusal: Refusal::default(),
            allowance: Allowance::default(),
            connections: 0,
            unanswered: 0,
            silent_since: None,
            token: None,
            needs_no_login: false,
            runtime: None,
        }
    }

    /// What messages call the store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many connections there were: what goes on on an earlier one is of no use.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// How many requests were sent and had no answer: each may have been carried out.
    pub fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Something was asked.
    pub fn was_asked(&self) -> bool {
        self.runtime.is_some()
    }

    /// Makes calls to a member. When that does not answer, or has no leader, to the next one, each of them once: what is
    /// asked has to be safe to repeat.
    pub fn call<T, F: Future<Output = Result<T, Status>>>(
        &mut self,
        timeout: &Timeout,
        work: impl Fn(EtcdClient) -> F,
    ) -> Result<T, StoreError> {
        // A connection that was left alone may have ended long ago.
        let attempts = self.address.cluster.servers.len() + usize::from(self.client.is_some());
        let answer = one_after_the_other(attempts, timeout, |timeout| {
            let mut answer = self.attempt(timeout, &work);
            let wants_login = match &answer {
                Err(CallError::Expired) => true,
                // Users were switched on since.
                Err(CallError::Denied(_)) => self.needs_no_login,
                _ => false,
            };
            if wants_login {
                (self.token, self.needs_no_login) = (None, false);
                answer = self.attempt(timeout, &work);
            }
            if let Err(CallError::NoAnswer { .. }) = answer
                && !self.has_patience()
            {
                self.next_server();
            }
            answer
        });
        answer.map_err(|error| match error {
            CallError::Expired => CallError::Denied("its login ended".to_owned()).of(&self.name),
            other => other.of(&self.name),
        })
    }

    /// Waits for something that goes on at the member that was asked last.
    pub fn wait<T>(&self, timeout: &Timeout, work: impl Future<Output = T>) -> Result<T, CallError> {
        self.allowance.renew();
        match &self.runtime {
            Some(runtime) => Ok(runtime.run(timeout, work)?),
            None => Err(RequestError::TimedOut.into()),
        }
    }

    /// The member may just be slow.
    fn has_patience(&self) -> bool {
        let patience = if self.is_alone() { PATIENCE_ALONE } else { PATIENCE };
        self.client.as_ref().is_some_and(|client| !client.is_closed())
            && self.silent_since.is_some_and(|since| !since.plus(patience).has_passed())
    }

    pub fn is_alone(&self) -> bool {
        self.address.cluster.servers.len() == 1
    }

    /// The next call goes to the next member.
    pub fn next_server(&mut self) {
        (self.client, self.silent_since) = (None, None);
        self.current = (self.current + 1) % self.address.cluster.servers.len().max(1);
    }

    fn attempt<T, F: Future<Output = Result<T, Status>>>(
        &mut self,
        timeout: &Timeout,
        work: impl Fn(EtcdClient) -> F,
    ) -> Result<T, CallError> {
        let client = self.client(timeout)?;
        let token = self.login(&client, timeout)?;
        let begun = BootTime::now();
        let answer = self.wait(timeout, work(client.logged_in(token)));
        self.silent_since = answer.is_err().then(|| self.silent_since.unwrap_or(begun));
        let answer = answer.and_then(|answer| self.judge(answer));
        self.unanswered += u32::from(matches!(answer, Err(CallError::NoAnswer { .. })));
        answer
    }

    /// Whether this is an answer.
    fn judge<T>(&mut self, answer: Result<T, Status>) -> Result<T, CallError> {
        self.has_answered |= answer.as_ref().err().is_none_or(|status| status.source().is_none());
        answer.map_err(|status| match self.refusal.take() {
            Some(why) => why.into(),
            None if !self.has_answered => CallError::no_answer(NO_ETCD),
            None => status.into(),
        })
    }

    /// The token for a user; `None` without one.
    fn login(
        &mut self,
        client: &EtcdClient,
        timeout: &Timeout,
    ) -> Result<Option<MetadataValue<Ascii>>, CallError> {
        let (Some(user), None, false) = (&self.address.cluster.user, &self.token, self.needs_no_login) else {
            return Ok(self.token.clone());
        };
        let password = self.address.cluster.password.as_ref().map(Password::current).unwrap_or_default();
        match self.wait(timeout, client.authenticate(user, &password))? {
            Ok(token) => self.token = MetadataValue::try_from(token).ok(),
            // etcdctl does not mind either.
            Err(status) if status.message().contains("authentication is not enabled") => {
                self.needs_no_login = true
            }
            Err(status) => return Err(status.into()),
        }
        Ok(self.token.clone())
    }

    fn client(&mut self, timeout: &Timeout) -> Result<EtcdClient, CallError> {
        if let Some(client) = self.client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        let endpoint = self.address.cluster.servers[self.current].clone();
        let servers = self.address.cluster.servers.len();
        let client = self.connect(&endpoint, timeout).map_err(|error| error.at(&endpoint, servers))?;
        self.connections += 1;
        self.has_answered = false;
        Ok(self.client.insert(client).clone())
    }

    fn connect(&mut self, endpoint: &Endpoint, timeout: &Timeout) -> Result<EtcdClient, CallError> {
        let tls = self.address.cluster.tls();
        let stream = Stream::connect(endpoint, tls, Some("h2"), timeout)?;
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Runtime::start()?,
        };
        let (refusal, allowance) = (self.refusal.clone(), self.allowance.clone());
        allowance.renew();
        let connecting = async {
            let socket = Socket::new(stream, refusal, allowance)
                .map_err(|error| RequestError::Broken(error.to_string()))?;
            let shaken = http2::handshake(InRuntime, socket).await;
            let (requests, connection) = shaken.map_err(|error| RequestError::Broken(error.to_string()))?;
            drop(tokio::spawn(connection));
            Ok::<_, RequestError>(requests)
        };
        let connected = runtime.run(timeout, connecting);
        self.runtime = Some(runtime);
        let scheme = if self.address.cluster.is_encrypted { "https" } else { "http" };
        let origin = format!("{scheme}://{endpoint}").parse().unwrap_or(Uri::from_static("http://etcd"));
        Ok(EtcdClient::new(connected??, origin))
    }
}
