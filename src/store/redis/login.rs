use super::net::connection::Connection;
use super::net::endpoint::Endpoint;
use super::net::failure::RequestError;
use super::refusal::accepted;
use crate::lock::{StoreError, Timeout};
use crate::store::TlsFiles;

/// How to log in to a server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: u32,
    /// The connection is encrypted, and the server has to show a certificate.
    pub tls: bool,
    pub tls_files: Box<TlsFiles>,
    /// Of the Sentinels.
    pub sentinel_password: Option<String>,
}

impl Login {
    /// How to log in to Sentinels: they have no databases, and a password of their own.
    pub fn of_sentinels(&self) -> Login {
        Login { user: None, password: self.sentinel_password.clone(), database: 0, ..self.clone() }
    }

    /// A new connection, which logs in with its first request. A database is chosen before: what follows a refusal
    /// of that would be carried out in another one.
    ///
    /// # Errors
    ///
    /// `name` is what they call the server.
    pub fn connect(
        &self,
        endpoint: &Endpoint,
        name: &str,
        patience: &Timeout,
    ) -> Result<Connection, StoreError> {
        let unreachable = |failure: RequestError| failure.of(name);
        let tls = self.tls.then_some(&*self.tls_files);
        let mut connection = Connection::open(endpoint, tls, patience).map_err(unreachable)?;
        if let Some(password) = &self.password {
            connection.log_in(redis::cmd("AUTH").arg(self.user.as_deref()).arg(password));
        }
        if self.database != 0 {
            let select = redis::cmd("SELECT").arg(self.database).take();
            accepted(connection.query(&select, patience).map_err(unreachable)?, name)?;
        }
        Ok(connection)
    }
}
