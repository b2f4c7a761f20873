//! Sentinels: they watch a primary, which they call the master, and its replicas, and say which server it is.
//!
//! The redis crate has a Sentinel client. It is not used: it believes the first Sentinel that answers, where a grant
//! counts only if no Sentinel knows of a newer primary; and it waits for one that hangs longer than a lease may last.

use std::time::Duration;

use redis::Value;

use crate::clock::{BootTime, Deadline};
use crate::lock::{Result, StoreError, Timeout};
use crate::store::net::{Endpoint, LONGEST_HOST, RequestError};
use crate::store::redis::connection::Connection;
use crate::store::redis::login::Login;
use crate::store::redis::reply::{accepted, items, number, text};

pub struct Sentinels {
    /// The next one to ask comes first.
    sentinels: Vec<Sentinel>,
    master_name: String,
    login: Login,
    store: String,
    /// The server that they named last.
    pub primary: Option<Endpoint>,
    /// When all of them were asked.
    agreed: Option<BootTime>,
}

struct Sentinel {
    endpoint: Endpoint,
    connection: Option<Connection>,
    /// It is not asked whether it agrees before this.
    silent_until: Deadline,
}

/// The time for one Sentinel, while there may be another that answers.
const QUICK: Duration = Duration::from_millis(250);
/// No Sentinel can answer in less time.
const SHORTEST: Duration = Duration::from_millis(20);
/// An answer of all of them is trusted for this long.
const FRESH: Duration = Duration::from_millis(300);
/// A Sentinel that did not answer is left alone for this long.
const SILENT: Duration = Duration::from_secs(10);

impl Sentinels {
    pub fn new(endpoints: Vec<Endpoint>, master_name: String, login: &Login, store: &str) -> Sentinels {
        let (login, store) = (login.for_sentinels(), store.to_owned());
        let sentinel = |endpoint| Sentinel { endpoint, connection: None, silent_until: BootTime::now() };
        let sentinels = endpoints.into_iter().map(sentinel).collect();
        Sentinels { sentinels, master_name, login, store, primary: None, agreed: None }
    }

    /// Makes sure that no Sentinel that answers knows of a newer primary than this one; otherwise that one is used from
    /// now on. Without Sentinels that answer no failover happens.
    pub fn verify(&mut self, primary: &Endpoint, timeout: &Timeout) -> Result<()> {
        let is_fresh = self.agreed.is_some_and(|when| !when.plus(FRESH).has_passed());
        if !is_fresh && let Some(newer) = self.newer_primary(primary, timeout)? {
            self.primary = Some(newer);
        }
        Ok(())
    }

    /// The primary that they name, if it is not `known`. After a failover one of them knows it first, the others within
    /// seconds: the one with the highest epoch is right. A Sentinel that does not answer does not count. An error when there
    /// was no time to ask all of them.
    fn newer_primary(&mut self, known: &Endpoint, timeout: &Timeout) -> Result<Option<Endpoint>> {
        let asked = BootTime::now();
        let (mut answers, mut late) = (Vec::new(), Vec::new());
        let is_awake = |index: &usize| self.sentinels[*index].silent_until.has_passed();
        let awake: Vec<usize> = (0..self.sentinels.len()).filter(is_awake).collect();
        for (done, &index) in awake.iter().enumerate() {
            let share = (timeout.until.left() / (awake.len() - done) as u32).min(QUICK);
            if share < SHORTEST {
                return Err(self.not_all_asked());
            }
            let attempt = timeout.at_most(share);
            match self.ask_one(index, &attempt) {
                Ok(Some(primary)) => answers.push((index, primary)),
                Ok(None) => {}
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) if attempt.until.has_passed() => late.push((index, share < QUICK)),
                Err(_) => self.fell_silent(index),
            }
        }
        if answers.is_empty() {
            // This machine may be slow: each gets a part of the time that is left.
            for (done, &(index, _)) in late.iter().enumerate() {
                let longer = timeout.until.left() / (late.len() - done) as u32;
                if longer > QUICK
                    && let Ok(Some(primary)) = self.ask_one(index, &timeout.at_most(longer))
                {
                    answers.push((index, primary));
                }
            }
            late.retain(|(index, _)| answers.iter().all(|(answered, _)| answered != index));
        }
        let hurried: Vec<usize> =
            late.iter().filter(|(_, hurried)| *hurried).map(|(index, _)| *index).collect();
        if let Some(first) = hurried.first()
            && answers.len() <= hurried.len()
        {
            // They may only be slow. Without the first there is more time for each at the next attempt. The last one is
            // asked again until it had its full time: a slow Sentinel may know of a failover, too.
            if awake.len() > 1 {
                self.fell_silent(*first);
            }
            return Err(self.not_all_asked());
        }
        late.into_iter().for_each(|(index, _)| self.fell_silent(index));
        self.agreed = Some(asked);
        if answers.iter().all(|(_, primary)| primary == known) {
            return Ok(None);
        }
        let claim = |(index, primary): (usize, Endpoint)| {
            (self.epoch(index, &timeout.at_most(QUICK)).unwrap_or(-1), primary != *known, primary)
        };
        let claims: Vec<_> = answers.into_iter().map(claim).collect();
        // The first one of the best.
        let best = claims.into_iter().rev().max_by_key(|(epoch, is_other, _)| (*epoch, *is_other));
        Ok(best.filter(|(_, is_other, _)| *is_other).map(|(_, _, primary)| primary))
    }

    fn not_all_asked(&self) -> StoreError {
        let why = "there was no time to ask all of its Sentinels who is the master".to_owned();
        StoreError::Unreachable { store: self.store.clone(), why, transient: true }
    }

    fn fell_silent(&mut self, index: usize) {
        self.sentinels[index].silent_until = Deadline::after(SILENT);
    }

    /// The epoch of the primary that this Sentinel names: every failover raises it.
    fn epoch(&mut self, index: usize, timeout: &Timeout) -> Option<i64> {
        let fields = items(self.query(index, "MASTER", timeout).ok()?);
        let mut epochs = fields.chunks(2).filter(|field| text(field.first()) == "config-epoch");
        epochs.next().map(|epoch| number(epoch.get(1)))
    }

    /// The primary failed: they are asked again, another one first, as this one may be behind.
    pub fn suspect(&mut self) {
        self.primary = None;
        self.agreed = None;
        self.sentinels.rotate_left(1);
    }

    pub fn refresh(&mut self, timeout: &Timeout) -> Result<Endpoint> {
        let mut failed = String::new();
        let (mut is_unknown, mut refused) = (false, None);
        // One that hangs costs little: it gets more time only when no other answers.
        let longer = timeout.until.left() / self.sentinels.len().max(1) as u32;
        for bound in [QUICK, longer.max(QUICK)] {
            for _ in 0..self.sentinels.len() {
                match self.ask_one(0, &timeout.at_most(bound)) {
                    Ok(Some(primary)) => {
                        self.primary = Some(primary.clone());
                        return Ok(primary);
                    }
                    Ok(None) => is_unknown = true,
                    Err(StoreError::Unreachable { why, .. }) => failed = why,
                    // Each Sentinel has its own login.
                    Err(error @ StoreError::Denied { .. }) => refused = Some(error),
                    Err(other) => return Err(other),
                }
                self.sentinels.rotate_left(1);
            }
            if is_unknown {
                let name = &self.master_name;
                let why = format!(
                    "its Sentinels know no master '{name}'; SENTINEL MASTERS lists those that they know"
                );
                return Err(StoreError::Unusable { store: self.store.clone(), why });
            }
            if timeout.until.has_passed() {
                break;
            }
        }
        let unreachable = || {
            let why = format!("no Sentinel answers ({failed})");
            StoreError::Unreachable { store: self.store.clone(), why, transient: false }
        };
        Err(refused.unwrap_or_else(unreachable))
    }

    /// The primary that one Sentinel names; `None` when it knows no master of this name.
    fn ask_one(&mut self, index: usize, timeout: &Timeout) -> Result<Option<Endpoint>> {
        let address = items(self.query(index, "GET-MASTER-ADDR-BY-NAME", timeout)?);
        let port = u16::try_from(number(address.get(1))).ok().filter(|port| *port > 0);
        let host = Some(text(address.first())).filter(|host| host.len() <= LONGEST_HOST);
        Ok(host.zip(port).map(|(host, port)| Endpoint::Tcp { host, port }))
    }

    /// Asks a Sentinel about the master. It is asked again on a new connection when the old one is broken: it may
    /// have restarted.
    fn query(&mut self, index: usize, what: &str, timeout: &Timeout) -> Result<Value> {
        let sentinel = &mut self.sentinels[index];
        let name = format!("the Sentinel {}", sentinel.endpoint);
        let mut question = redis::cmd("SENTINEL");
        question.arg(what).arg(&self.master_name);
        loop {
            let (mut connection, is_kept) = match sentinel.connection.take() {
                Some(connection) => (connection, true),
                None => {
                    let new = self.login.connect(&sentinel.endpoint, &name, timeout);
                    (new.map_err(with_hint)?, false)
                }
            };
            match connection.query(&question, timeout) {
                Err(RequestError::Broken(_)) if is_kept => {}
                answer => {
                    let reply = answer.map_err(|error| with_hint(error.of(&name)))?;
                    sentinel.connection = Some(connection);
                    return accepted(reply, &name).map_err(with_hint);
                }
            }
        }
    }
}

/// Adds which option has the password.
fn with_hint(error: StoreError) -> StoreError {
    let StoreError::Denied { store, why } = error else { return error };
    let why = match why.split(' ').next() {
        Some("NOAUTH") => "it has a password of its own: --sentinel-password-file".to_owned(),
        Some("WRONGPASS") => "the password of --sentinel-password-file is not its own".to_owned(),
        _ => why,
    };
    StoreError::Denied { store, why }
}
