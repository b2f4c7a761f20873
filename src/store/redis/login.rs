//! Logging in to a server.

use super::connection::Connection;
use super::reply::accepted;
use crate::lock::{Result, StoreError, Timeout};
use crate::store::credentials::{Password, TlsFiles};
use crate::store::net::{Endpoint, RequestError};

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<Password>,
    pub database: u32,
    /// The connection is encrypted, and the server has to show a certificate.
    pub tls: bool,
    pub tls_files: Box<TlsFiles>,
    /// The password of the Sentinels.
    pub sentinel_password: Option<Password>,
}

impl Login {
    /// The login of the Sentinels: they have no databases, and a password of their own.
    pub fn for_sentinels(&self) -> Login {
        Login { user: None, password: self.sentinel_password.clone(), database: 0, ..self.clone() }
    }

    /// A new connection, which logs in with its first request. SELECT has a round trip of its own: a request behind a
    /// refused one would be carried out in another database. Messages call the server `name`.
    pub fn connect(&self, endpoint: &Endpoint, name: &str, timeout: &Timeout) -> Result<Connection> {
        let unreachable = |error: RequestError| error.of(name);
        let tls = self.tls.then_some(&*self.tls_files);
        let mut connection = Connection::open(endpoint, tls, timeout).map_err(unreachable)?;
        if let Some(password) = &self.password {
            let auth = redis::cmd("AUTH").arg(self.user.as_deref()).arg(password.current()).take();
            connection.login = auth.get_packed_command();
        }
        if self.database != 0 {
            let select = redis::cmd("SELECT").arg(self.database).take();
            let reply = connection.query(&select, timeout).map_err(unreachable)?;
            accepted(reply, name).map_err(|error| self.of_database(error))?;
        }
        Ok(connection)
    }

    /// A database that the server does not have is a mistake in the URL.
    fn of_database(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Unreachable { store, why, .. } if why.contains("DB index is out of range") => {
                let why = format!("it has no database {}; those of most servers are 0 to 15", self.database);
                StoreError::Unusable { store, why }
            }
            other => other,
        }
    }
}
