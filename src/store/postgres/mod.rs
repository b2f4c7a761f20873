//! PostgreSQL: tables of one database, in plain SQL.
//!
//! From the bottom to the top: `message` and `scram` (the protocol), `connection` (transactions in one round trip) and `login`,
//! `database` (which server is asked), `statements` with the files in `sql`, `answer` (what rows mean), `acquire`, and the store.
//!
//! A transaction is one round trip, and no row is locked longer than that: a client that is stopped stops nobody.

mod acquire;
mod answer;
mod connection;
mod database;
mod environment;
mod error;
mod health;
mod login;
mod message;
mod one_of;
mod scram;
mod statements;
mod status;
mod store;
mod url;
mod waiting;

use self::store::{CAPABILITIES, Postgres};
pub use self::url::PostgresAddress;
use super::{Credentials, OpenOptions, StoreAddress};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin, Timeout};

impl StoreAddress for PostgresAddress {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn has_password(&self) -> bool {
        PostgresAddress::has_password(self)
    }

    fn plain_server(&self) -> Option<String> {
        self.is_in_plain().then(|| self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        Some(format!("{self} cannot be one of several servers; name the hosts of one database in one URL"))
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(&self.clone().with(login), terms)
    }

    fn setup_script(&self) -> Option<&'static str> {
        Some(statements::SETUP)
    }

    fn set_up(&self, login: &Credentials, timeout: &Timeout) -> Result<(), String> {
        health::set_up(&self.clone().with(login), timeout).map_err(|error| error.to_string())
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Postgres::new(self.clone().with(&options.credentials)))
    }
}
