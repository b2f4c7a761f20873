use redis::ServerError;

use super::refusal::refused;
use crate::lock::StoreError;

/// Why there is no reply.
#[derive(Debug)]
pub enum Failure {
    /// The connection is of no more use.
    Broken(String),
    /// No reply in time. The connection can be used on: the late reply is skipped.
    TimedOut,
    Interrupted,
    /// The server does not let us in.
    Denied(String),
    /// It said this to the login in front of the request.
    Refused(ServerError),
    /// We are not fit to ask it.
    Unusable(String),
}

impl Failure {
    /// What it means for a request to the server with this name.
    pub fn of(self, name: &str) -> StoreError {
        let store = name.to_owned();
        let why = match self {
            Failure::Interrupted => return StoreError::Interrupted,
            Failure::Refused(error) => return refused(&error, name),
            Failure::Denied(why) => return StoreError::Denied { store, why },
            Failure::Unusable(why) => return StoreError::Unusable { store, why },
            Failure::Broken(why) => why,
            Failure::TimedOut => "no answer in time".to_owned(),
        };
        StoreError::Unreachable { store, why, transient: false }
    }
}
