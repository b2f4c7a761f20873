//! Sentinels: who watch over a master and its replicas, and say which server is the master.

use std::time::Duration;

use super::access::Access;
use super::address::Endpoint;
use super::connection::Connection;
use super::refusal::accepted;
use super::route::NodeId;
use super::script::{items, number, text};
use crate::clock::BootTime;
use crate::lock::{Patience, StoreError};

/// The Sentinels of one master.
pub struct Sentinels {
    /// The one to be asked first comes first.
    endpoints: Vec<Endpoint>,
    master_name: String,
    access: Access,
    /// What messages call the store.
    store: String,
    /// To the first one.
    connection: Option<Connection>,
    /// Whom they named, and when.
    master: Option<(NodeId, BootTime)>,
}

/// For the answer of one Sentinel, as long as there may be another that answers.
const QUICK: Duration = Duration::from_millis(250);
/// What they said is believed without asking again.
const FRESH: Duration = Duration::from_millis(300);

impl Sentinels {
    pub fn new(endpoints: Vec<Endpoint>, master_name: String, access: &Access, store: &str) -> Sentinels {
        let access =
            Access { user: None, password: access.sentinel_password.clone(), database: 0, ..access.clone() };
        let store = store.to_owned();
        Sentinels { endpoints, master_name, access, store, connection: None, master: None }
    }

    /// The master, as they last said.
    pub fn master(&self) -> Option<NodeId> {
        self.master.map(|(node, _)| node)
    }

    /// Whether they said it just now.
    pub fn is_fresh(&self) -> bool {
        self.master.is_some_and(|(_, when)| !when.plus(FRESH).has_passed())
    }

    pub fn named(&mut self, node: NodeId) {
        self.master = Some((node, BootTime::now()));
    }

    /// They are to be asked anew, and another one first: this one may be behind.
    pub fn forget(&mut self) {
        self.master = None;
        self.next();
    }

    /// Which server they call the master.
    pub fn ask(&mut self, patience: &Patience) -> Result<Endpoint, StoreError> {
        let mut failed = String::new();
        let mut is_unknown = false;
        // One that is dead or hangs costs little: only when no other answers it gets more time.
        let longer = patience.until.left() / self.endpoints.len().max(1) as u32;
        for bound in [QUICK, longer.max(QUICK)] {
            for _ in 0..self.endpoints.len() {
                let until = patience.until.min(BootTime::after(bound));
                match self.ask_first(&Patience { until, ..*patience }) {
                    Ok(Some(master)) => return Ok(master),
                    Ok(None) => is_unknown = true,
                    Err(StoreError::Unreachable { why, .. }) => failed = why,
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
        let why = format!("no Sentinel answers ({failed})");
        Err(StoreError::Unreachable { store: self.store.clone(), why, transient: false })
    }

    fn next(&mut self) {
        self.connection = None;
        self.endpoints.rotate_left(1);
    }

    /// `None` when this Sentinel does not know the master.
    fn ask_first(&mut self, patience: &Patience) -> Result<Option<Endpoint>, StoreError> {
        let name = format!("the Sentinel {}", self.endpoints[0]);
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.access.connect(&self.endpoints[0], &name, patience).map_err(with_hint)?,
        };
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master_name);
        let reply = connection.query(&question, patience).map_err(|failure| failure.of(&name))?;
        self.connection = Some(connection);
        let address = items(accepted(reply, &name).map_err(with_hint)?);
        let port = u16::try_from(number(address.get(1))).ok().filter(|port| *port > 0);
        Ok(port.map(|port| Endpoint::Tcp { host: text(address.first()), port }))
    }

    /// An error when the server says that it is not the master: they may be behind.
    pub fn expect_master(
        connection: &mut Connection,
        name: &str,
        patience: &Patience,
    ) -> Result<(), StoreError> {
        let reply = connection.query(&redis::cmd("ROLE"), patience).map_err(|failure| failure.of(name))?;
        match text(items(accepted(reply, name)?).first()).as_str() {
            "master" => Ok(()),
            role => Err(StoreError::Unreachable {
                store: name.to_owned(),
                why: format!("its role is now '{}'; a failover is going on", role.escape_default()),
                transient: true,
            }),
        }
    }
}

fn with_hint(error: StoreError) -> StoreError {
    match error {
        StoreError::Denied { store, why } if why.starts_with("NOAUTH") || why.starts_with("WRONGPASS") => {
            let why = "it has a password of its own: --sentinel-password-file".to_owned();
            StoreError::Denied { store, why }
        }
        other => other,
    }
}
