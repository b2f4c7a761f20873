//! A connection on which `doctor` asks.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::doctor::{Check, Findings, Requirements};
use crate::lock::{Result, StoreError, Timeout};
use crate::store::net::Endpoint;
use crate::store::redis::connection::{Connection, LONGEST_LIST};
use crate::store::redis::login::Login;

pub struct Asking {
    connection: Connection,
    attempt: Duration,
}

impl Asking {
    pub fn open(login: &Login, endpoint: &Endpoint, name: &str, terms: &Requirements) -> Result<Asking> {
        let mut connection = login.connect(endpoint, name, &Timeout::of(terms.attempt))?;
        connection.longest = LONGEST_LIST;
        Ok(Asking { connection, attempt: terms.attempt })
    }

    /// Warns of a server on another host without TLS.
    pub fn judge_encryption(&self, report: &mut Findings) {
        if self.connection.stream.is_in_plain() {
            let finding = "it is on another host, and nothing is encrypted: whoever is on the way reads \
                           passwords and owner tokens, and can answer in its place";
            let advice = "let it speak TLS and name it with rediss://, or use a tunnel";
            report.warning(Check::Encryption, finding, advice);
        }
    }

    /// The reply, which may be an error.
    pub fn ask(&mut self, command: &Cmd) -> Result<Value> {
        self.connection.query(command, &Timeout::of(self.attempt)).map_err(|failure| failure.of(""))
    }
}

pub fn unreachable(report: &mut Findings, error: &StoreError) {
    match error {
        StoreError::Denied { why, .. } => report.bad(Check::Login, why, LOGIN_ADVICE),
        StoreError::Unreachable { why, .. } | StoreError::Unusable { why, .. } => {
            let advice = "see whether it runs, and check the address, firewalls and --connect-timeout";
            report.bad(Check::Reachable, format!("it cannot be reached: {why}"), advice);
        }
        other => report.bad(Check::Reachable, other.to_string(), "check the server"),
    }
}

pub const LOGIN_ADVICE: &str = "check --user and --password-file, and the user on the server (ACL LIST)";

/// The reply says that nothing is permitted before a login.
pub fn wants_login(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOAUTH")
}
