//! Why a call to one server of a cluster failed, and what that means for a lock.

use super::net::RequestError;
use crate::lock::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Another server may answer, or the same one later. The outcome is unknown.
    NoAnswer {
        why: String,
        /// Asking again within seconds makes sense.
        transient: bool,
    },
    /// The session has ended, with everything in it. In etcd it is a login.
    Expired,
    /// The login was refused, or a permission is missing.
    Denied(String),
    /// It makes no sense to ask anybody.
    Unusable(String),
    Interrupted,
}

impl CallError {
    /// The error of a request to the store with this name.
    pub fn of(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            CallError::NoAnswer { why, transient } => StoreError::Unreachable { store, why, transient },
            CallError::Expired => {
                let why = "the session has ended".to_owned();
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

    /// The same of one of `servers` servers, which several of them are told apart by.
    pub fn at(self, server: &impl std::fmt::Display, servers: usize) -> CallError {
        match self {
            CallError::NoAnswer { why, transient } if servers > 1 => {
                CallError::NoAnswer { why: format!("{server}: {why}"), transient }
            }
            other => other,
        }
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
            RequestError::LoginRefused { .. } => CallError::no_answer("it is a Redis"),
        }
    }
}
