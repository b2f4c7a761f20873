//! What an error of ZooKeeper, or no answer, means for a lock.

use super::jute::Malformed;
use super::message::Code;
use crate::lock::StoreError;
use crate::store::net::RequestError;

/// Why a call to one server failed.
#[derive(Clone, Debug)]
pub enum CallError {
    /// Another server may answer, or the same one later. The outcome is unknown.
    NoAnswer {
        why: String,
        /// Whether asking again within seconds makes sense.
        transient: bool,
    },
    /// With everything in it.
    SessionExpired,
    /// A permission is missing.
    Denied(String),
    /// It makes no sense to ask anybody.
    Unusable(String),
    Interrupted,
}

pub type Result<T, E = CallError> = std::result::Result<T, E>;

impl CallError {
    /// What it means for a request to the store with this name.
    pub fn of(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            CallError::NoAnswer { why, transient } => StoreError::Unreachable { store, why, transient },
            CallError::SessionExpired => {
                let why = "the session ended meanwhile".to_owned();
                StoreError::Unreachable { store, why, transient: true }
            }
            CallError::Denied(why) => StoreError::Denied { store, why },
            CallError::Unusable(why) => StoreError::Unusable { store, why },
            CallError::Interrupted => StoreError::Interrupted,
        }
    }

    pub fn no_answer(why: impl Into<String>) -> CallError {
        CallError::NoAnswer { why: why.into(), transient: false }
    }

    /// It may be better soon.
    pub fn transient(why: impl Into<String>) -> CallError {
        CallError::NoAnswer { why: why.into(), transient: true }
    }

    pub fn is_transient(&self) -> bool {
        matches!(self, CallError::NoAnswer { transient: true, .. })
    }
}

impl From<RequestError> for CallError {
    fn from(error: RequestError) -> CallError {
        match error {
            RequestError::Interrupted => CallError::Interrupted,
            RequestError::TimedOut => CallError::no_answer("no answer in time"),
            RequestError::Broken(why) => CallError::no_answer(why),
            RequestError::Denied(why) => CallError::Denied(why),
            RequestError::Unusable(why) => CallError::Unusable(why),
            // Said by Redis only.
            RequestError::Refused { .. } => CallError::no_answer("it is no ZooKeeper"),
        }
    }
}

impl From<Malformed> for CallError {
    fn from(_: Malformed) -> CallError {
        CallError::no_answer("it does not speak the protocol of ZooKeeper; is this the right port?")
    }
}

impl From<Code> for CallError {
    fn from(code: Code) -> CallError {
        match code {
            Code::SESSION_EXPIRED => CallError::SessionExpired,
            Code::SESSION_MOVED => CallError::transient("the session moved to another server"),
            Code::NO_AUTH => CallError::Denied(
                "user and password may not use the nodes of this lock (none, or the wrong ones); see PERMISSIONS in redlock(1)"
                    .to_owned(),
            ),
            Code::AUTH_FAILED => CallError::Denied("user or password is wrong".to_owned()),
            Code(-123 | -124) => CallError::Denied("it wants another way to log in (SASL)".to_owned()),
            Code(-125) => CallError::no_answer("a quota does not allow the nodes of this lock"),
            Code(-119) => CallError::transient("it may only be read, as it has lost its leader"),
            Code(number) => CallError::transient(format!("it answered with the error {number}")),
        }
    }
}
