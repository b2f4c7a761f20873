use redis::ServerError;

use crate::lock::StoreError;
use crate::store::redis::refusal::refused;

/// Why there is no reply.
#[derive(Debug)]
pub enum RequestError {
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

impl RequestError {
    /// What it means for a request to the server with this name.
    pub fn of(self, name: &str) -> StoreError {
        let store = name.to_owned();
        let why = match self {
            RequestError::Interrupted => return StoreError::Interrupted,
            RequestError::Refused(error) => return refused(&error, name),
            RequestError::Denied(why) => return StoreError::Denied { store, why },
            RequestError::Unusable(why) => return StoreError::Unusable { store, why },
            RequestError::Broken(why) => why,
            RequestError::TimedOut => "no answer in time".to_owned(),
        };
        StoreError::Unreachable { store, why, transient: false }
    }
}
