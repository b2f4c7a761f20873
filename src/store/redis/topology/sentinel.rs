//! Sentinels: who watch over a master and its replicas, and say which server is the master.

use std::time::Duration;

use redis::Value;

use super::NodeId;
use crate::clock::BootTime;
use crate::lock::{StoreError, Timeout};
use crate::store::redis::login::Login;
use crate::store::redis::net::connection::Connection;
use crate::store::redis::net::endpoint::{Endpoint, LONGEST_HOST};
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::refusal::{accepted, in_short};
use crate::store::redis::script::{items, number, text};

/// The Sentinels of one master.
pub struct Sentinels {
    /// The one to be asked first comes first.
    sentinels: Vec<Sentinel>,
    master_name: String,
    access: Login,
    /// What messages call the store.
    store: String,
    /// Whom they named.
    master: Option<NodeId>,
    /// When all of them were asked.
    agreed: Option<BootTime>,
}

struct Sentinel {
    endpoint: Endpoint,
    connection: Option<Connection>,
    /// It did not answer; until then only the others are asked whether they agree.
    silent_until: Option<BootTime>,
}

/// For the answer of one Sentinel, as long as there may be another that answers.
const QUICK: Duration = Duration::from_millis(250);
/// With less time than this nobody can answer.
const LEAST: Duration = Duration::from_millis(20);
/// What they said is believed without asking again.
const FRESH: Duration = Duration::from_millis(300);
/// One that did not answer is left alone.
const SILENT: Duration = Duration::from_secs(10);

impl Sentinels {
    /// Asks nobody so far. `access` is that of the servers, `store` what messages call all of it.
    pub fn new(endpoints: Vec<Endpoint>, master_name: String, access: &Login, store: &str) -> Sentinels {
        let access = access.of_sentinels();
        let store = store.to_owned();
        let sentinel = |endpoint| Sentinel { endpoint, connection: None, silent_until: None };
        let sentinels = endpoints.into_iter().map(sentinel).collect();
        Sentinels { sentinels, master_name, access, store, master: None, agreed: None }
    }

    /// The master, as they last said.
    pub fn master(&self) -> Option<NodeId> {
        self.master
    }

    /// Whether all of them said so just now.
    pub fn is_fresh(&self) -> bool {
        self.agreed.is_some_and(|when| !when.plus(FRESH).has_passed())
    }

    /// This is the server that they named.
    pub fn named(&mut self, node: NodeId) {
        self.master = Some(node);
    }

    /// Whom they call the master if not this one. After a failover one of them knows it first, the others within
    /// seconds: the one with the highest epoch is right. Those that do not answer have nothing to say.
    ///
    /// # Errors
    ///
    /// Not all of them could be asked in the time there is: then nobody knows.
    pub fn dissent(&mut self, from: &Endpoint, patience: &Timeout) -> Result<Option<Endpoint>, StoreError> {
        let asked = BootTime::now();
        let mut best: Option<(i64, bool, Endpoint)> = None;
        let (mut answers, mut hurried) = (Vec::new(), Vec::new());
        let is_silent = |sentinel: &Sentinel| sentinel.silent_until.is_some_and(|until| !until.has_passed());
        let awake: Vec<usize> =
            (0..self.sentinels.len()).filter(|index| !is_silent(&self.sentinels[*index])).collect();
        for (done, &index) in awake.iter().enumerate() {
            let share = (patience.until.left() / (awake.len() - done) as u32).min(QUICK);
            if share < LEAST {
                return Err(self.nobody_knows());
            }
            let until = BootTime::after(share);
            match self.ask_one(index, &Timeout { until, ..*patience }) {
                Ok(Some(master)) => answers.push((index, master)),
                Ok(None) => {}
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) if share < QUICK && until.has_passed() => hurried.push(index),
                Err(_) => self.fell_silent(index),
            }
        }
        if let Some(first) = hurried.first()
            && answers.len() <= hurried.len()
        {
            // Perhaps they are only slow. Without one of them there is more time for each at the next attempt.
            self.fell_silent(*first);
            return Err(self.nobody_knows());
        }
        hurried.into_iter().for_each(|index| self.fell_silent(index));
        self.agreed = Some(asked);
        if answers.iter().all(|(_, master)| master == from) {
            return Ok(None);
        }
        for (index, master) in answers {
            let patience = Timeout { until: patience.until.min(BootTime::after(QUICK)), ..*patience };
            let epoch = self.epoch(index, &patience).unwrap_or(-1);
            let answer = (epoch, master != *from, master);
            if best.as_ref().is_none_or(|best| (best.0, best.1) < (answer.0, answer.1)) {
                best = Some(answer);
            }
        }
        Ok(best.filter(|(_, is_other, _)| *is_other).map(|(_, _, master)| master))
    }

    fn nobody_knows(&self) -> StoreError {
        let why = "there was no time to ask all of its Sentinels who is the master".to_owned();
        StoreError::Unreachable { store: self.store.clone(), why, transient: true }
    }

    fn fell_silent(&mut self, index: usize) {
        self.sentinels[index].silent_until = Some(BootTime::after(SILENT));
    }

    /// How many failovers this Sentinel has seen, so to speak.
    fn epoch(&mut self, index: usize, patience: &Timeout) -> Option<i64> {
        let facts = items(self.query(index, "MASTER", patience).ok()?);
        let mut facts = facts.chunks(2).filter(|fact| text(fact.first()) == "config-epoch");
        facts.next().map(|fact| number(fact.get(1)))
    }

    /// They are to be asked anew, and another one first: this one may be behind.
    pub fn forget(&mut self) {
        self.master = None;
        self.agreed = None;
        self.next();
    }

    /// Which server they call the master.
    pub fn ask(&mut self, patience: &Timeout) -> Result<Endpoint, StoreError> {
        let mut failed = String::new();
        let (mut is_unknown, mut refused) = (false, None);
        // One that is dead or hangs costs little: only when no other answers it gets more time.
        let longer = patience.until.left() / self.sentinels.len().max(1) as u32;
        for bound in [QUICK, longer.max(QUICK)] {
            for _ in 0..self.sentinels.len() {
                let until = patience.until.min(BootTime::after(bound));
                match self.ask_one(0, &Timeout { until, ..*patience }) {
                    Ok(Some(master)) => return Ok(master),
                    Ok(None) => is_unknown = true,
                    Err(StoreError::Unreachable { why, .. }) => failed = why,
                    // Each has a login of its own.
                    Err(error @ StoreError::Denied { .. }) => refused = Some(error),
                    Err(other) => return Err(other),
                }
                self.next();
            }
            if is_unknown {
                let why = format!(
                    "its Sentinels know no master '{}'; SENTINEL MASTERS lists those that they know",
                    self.master_name
                );
                return Err(StoreError::Unusable { store: self.store.clone(), why });
            }
            if patience.until.has_passed() {
                break;
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        let why = format!("no Sentinel answers ({failed})");
        Err(StoreError::Unreachable { store: self.store.clone(), why, transient: false })
    }

    fn next(&mut self) {
        self.sentinels.rotate_left(1);
    }

    /// `None` when this Sentinel does not know the master.
    fn ask_one(&mut self, index: usize, patience: &Timeout) -> Result<Option<Endpoint>, StoreError> {
        let address = items(self.query(index, "GET-MASTER-ADDR-BY-NAME", patience)?);
        let port = u16::try_from(number(address.get(1))).ok().filter(|port| *port > 0);
        let host = Some(text(address.first())).filter(|host| host.len() <= LONGEST_HOST);
        Ok(host.zip(port).map(|(host, port)| Endpoint::Tcp { host, port }))
    }

    /// What a Sentinel says about the master. A connection that broke says nothing about the Sentinel: it was
    /// perhaps started anew, and is asked again on a new one.
    fn query(&mut self, index: usize, what: &str, patience: &Timeout) -> Result<Value, StoreError> {
        let sentinel = &mut self.sentinels[index];
        let name = format!("the Sentinel {}", sentinel.endpoint);
        let mut question = redis::cmd("SENTINEL");
        question.arg(what).arg(&self.master_name);
        loop {
            let (mut connection, is_kept) = match sentinel.connection.take() {
                Some(connection) => (connection, true),
                None => {
                    let new = self.access.connect(&sentinel.endpoint, &name, patience);
                    (new.map_err(with_hint)?, false)
                }
            };
            match connection.query(&question, patience) {
                Err(RequestError::Broken(_)) if is_kept => {}
                answer => {
                    let reply = answer.map_err(|failure| with_hint(failure.of(&name)))?;
                    sentinel.connection = Some(connection);
                    return accepted(reply, &name).map_err(with_hint);
                }
            }
        }
    }

    /// An error when the server says that it is not the master: they may be behind.
    pub fn expect_master(
        connection: &mut Connection,
        name: &str,
        patience: &Timeout,
    ) -> Result<(), StoreError> {
        let reply = connection.query(&redis::cmd("ROLE"), patience).map_err(|failure| failure.of(name))?;
        match text(items(accepted(reply, name)?).first()).as_str() {
            "master" => Ok(()),
            role => Err(StoreError::Unreachable {
                store: name.to_owned(),
                why: format!("its role is now '{}'; a failover is going on", in_short(role).escape_default()),
                transient: true,
            }),
        }
    }
}

fn with_hint(error: StoreError) -> StoreError {
    match error {
        StoreError::Denied { store, why } if why.starts_with("NOAUTH") => {
            let why = "it has a password of its own: --sentinel-password-file".to_owned();
            StoreError::Denied { store, why }
        }
        StoreError::Denied { store, why } if why.starts_with("WRONGPASS") => {
            let why = "the password of --sentinel-password-file is not its own".to_owned();
            StoreError::Denied { store, why }
        }
        other => other,
    }
}
