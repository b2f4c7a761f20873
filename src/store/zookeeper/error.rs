//! What an error of ZooKeeper, or no answer, means for a lock.

use super::jute::Malformed;
use super::message::Code;
use crate::lock::StoreError;
use crate::store::attempts::ServerError;
use crate::store::net::RequestError;

/// Why a call to one server failed.
#[derive(Clone, Debug)]
pub enum ZooKeeperError {
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

pub type ZooKeeperResult<T> = Result<T, ZooKeeperError>;

impl ZooKeeperError {
    /// What it means for a request to the store with this name.
    pub fn of(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            ZooKeeperError::NoAnswer { why, transient } => StoreError::Unreachable { store, why, transient },
            ZooKeeperError::SessionExpired => {
                let why = "the session ended meanwhile".to_owned();
                StoreError::Unreachable { store, why, transient: true }
            }
            ZooKeeperError::Denied(why) => StoreError::Denied { store, why },
            ZooKeeperError::Unusable(why) => StoreError::Unusable { store, why },
            ZooKeeperError::Interrupted => StoreError::Interrupted,
        }
    }

    pub fn no_answer(why: impl Into<String>) -> ZooKeeperError {
        ZooKeeperError::NoAnswer { why: why.into(), transient: false }
    }

    /// It may be better soon.
    pub fn transient(why: impl Into<String>) -> ZooKeeperError {
        ZooKeeperError::NoAnswer { why: why.into(), transient: true }
    }
}

impl ServerError for ZooKeeperError {
    fn is_no_answer(&self) -> bool {
        matches!(self, ZooKeeperError::NoAnswer { .. })
    }

    fn is_transient(&self) -> bool {
        matches!(self, ZooKeeperError::NoAnswer { transient: true, .. })
    }
}

impl From<RequestError> for ZooKeeperError {
    fn from(error: RequestError) -> ZooKeeperError {
        match error {
            RequestError::Interrupted => ZooKeeperError::Interrupted,
            RequestError::TimedOut => ZooKeeperError::no_answer("no answer in time"),
            RequestError::Broken(why) => ZooKeeperError::no_answer(why),
            RequestError::Denied(why) => ZooKeeperError::Denied(why),
            RequestError::Unusable(why) => ZooKeeperError::Unusable(why),
            // Said by Redis only.
            RequestError::LoginRefused { .. } => ZooKeeperError::no_answer("it is no ZooKeeper"),
        }
    }
}

impl From<Malformed> for ZooKeeperError {
    fn from(_: Malformed) -> ZooKeeperError {
        ZooKeeperError::no_answer("it does not speak the protocol of ZooKeeper; is this the right port?")
    }
}

impl From<Code> for ZooKeeperError {
    fn from(code: Code) -> ZooKeeperError {
        match code {
            Code::SESSION_EXPIRED => ZooKeeperError::SessionExpired,
            Code::SESSION_MOVED => ZooKeeperError::transient("the session moved to another server"),
            Code::NO_AUTH => ZooKeeperError::Denied(
                "user and password may not use the nodes of this lock (none, or the wrong ones); see PERMISSIONS in redlock(1)"
                    .to_owned(),
            ),
            Code::AUTH_FAILED => ZooKeeperError::Denied("user or password is wrong".to_owned()),
            Code(-108) => ZooKeeperError::Unusable(
                "another program has an ephemeral node on the path of this lock; choose another key".to_owned(),
            ),
            Code(-123 | -124) => ZooKeeperError::Denied("it wants another way to log in (SASL)".to_owned()),
            Code(-125) => ZooKeeperError::no_answer("a quota does not allow the nodes of this lock"),
            Code(-119) => ZooKeeperError::transient("it may only be read, as it has lost its leader"),
            Code(number) => ZooKeeperError::transient(format!("it answered with the error {number}")),
        }
    }
}
