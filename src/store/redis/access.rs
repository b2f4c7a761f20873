use super::address::Endpoint;
use super::connection::{Connection, Failure};
use super::refusal::accepted;
use crate::lock::{Patience, StoreError};
use crate::store::TlsFiles;

/// How to log in to a server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: u32,
    /// The connection is encrypted, and the server has to show a certificate.
    pub tls: bool,
    pub tls_files: TlsFiles,
    /// Of the Sentinels.
    pub sentinel_password: Option<String>,
}

impl Access {
    /// A new connection, logged in. Without a password and a database number nothing is sent for that.
    ///
    /// # Errors
    ///
    /// `name` is what they call the server.
    pub fn connect(
        &self,
        endpoint: &Endpoint,
        name: &str,
        patience: &Patience,
    ) -> Result<Connection, StoreError> {
        let unreachable = |failure: Failure| failure.of(name);
        let mut connection = Connection::open(endpoint, self.tls_files(), patience).map_err(unreachable)?;
        let mut login = Vec::new();
        if let Some(password) = &self.password {
            login.push(redis::cmd("AUTH").arg(self.user.as_deref()).arg(password).take());
        }
        if self.database != 0 {
            login.push(redis::cmd("SELECT").arg(self.database).take());
        }
        for command in &login {
            let reply = connection.query(command, patience).map_err(unreachable)?;
            accepted(reply, name)?;
        }
        if self.tls && login.is_empty() {
            // In TLS 1.3 a server that does not accept our certificate says so behind the handshake. Any answer
            // will do, also that this user may not ask.
            connection.query(&redis::cmd("PING"), patience).map_err(unreachable)?;
        }
        Ok(connection)
    }

    fn tls_files(&self) -> Option<&TlsFiles> {
        self.tls.then_some(&self.tls_files)
    }
}
