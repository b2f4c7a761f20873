//! The meaning of the server's errors.

use crate::sanitize::sanitize;
use crate::store::call_error::CallError;

/// An error that the server reported: its SQLSTATE, and its text made harmless.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    pub code: String,
    pub text: String,
    /// The server ends the connection.
    pub is_fatal: bool,
}

/// The way to make a schema that is missing.
pub const SET_UP: &str = "run 'redlock doctor --setup' as a user who may create it, or the script that 'redlock doctor --sql' prints";

/// A division by zero: how a statement of ours takes back the whole transaction.
pub const TAKEN_BACK: &str = "22012";
/// A standby refuses a transaction that may write.
pub const STANDBY: &str = "0A000";
/// The server is not to be written to now.
pub const READ_ONLY: &str = "25006";
/// A row was locked for longer than lock_timeout.
pub const ROW_LOCKED: &str = "55P03";
/// The connection was idle for longer than idle_session_timeout.
const IDLE: &str = "57P05";
/// An administrator canceled the statement, or it took longer than statement_timeout.
const CANCELED: &str = "57014";

impl ServerError {
    pub fn read(body: &[u8]) -> ServerError {
        let mut error = ServerError::default();
        for field in body.split(|byte| *byte == 0) {
            let Some((kind, value)) = field.split_first() else { continue };
            let value = String::from_utf8_lossy(value);
            match kind {
                b'S' | b'V' => error.is_fatal |= matches!(&*value, "FATAL" | "PANIC"),
                b'C' => error.code = sanitize(&value.chars().take(5).collect::<String>()),
                b'M' => error.text = sanitize(&value.chars().take(200).collect::<String>()),
                _ => {}
            }
        }
        error
    }

    /// Nothing was changed, and the same may succeed now.
    pub fn is_undone(&self) -> bool {
        matches!(&*self.code, "40001" | "40P01" | ROW_LOCKED | CANCELED)
    }
}

impl From<ServerError> for CallError {
    fn from(ServerError { code, text, .. }: ServerError) -> CallError {
        match &*code {
            "3F000" | "42P01" | "42703" | "42883" => {
                CallError::Unusable(format!("its schema 'redlock' is missing or too old ({text}); {SET_UP}"))
            }
            "42501" => CallError::Denied(format!("{text}; grant it: see 'redlock doctor --sql'")),
            "3D000" => CallError::Unusable(text),
            "22P05" | "22021" => {
                CallError::Unusable(format!("{text}; use a database with the encoding UTF8"))
            }
            // Another host may be the primary.
            STANDBY | READ_ONLY => CallError::transient(format!("it is read-only ({text})")),
            "40001" | "40P01" | ROW_LOCKED | CANCELED | IDLE | "53300" | "57P01" | "57P02" | "57P03" => {
                CallError::transient(text)
            }
            code if code.starts_with("28") => CallError::Denied(text),
            _ => CallError::no_answer(text),
        }
    }
}
