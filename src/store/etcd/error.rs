//! What an error of etcd, or no answer, means for a lock.

use std::error::Error;

use tonic::{Code, Status};

use crate::lock::StoreError;
use crate::sanitize::sanitize;
use crate::store::attempts::ServerError;
use crate::store::net::RequestError;

/// Why a call to one member failed.
#[derive(Debug)]
pub enum EtcdError {
    /// Another member may answer, or the same one later. The outcome is unknown.
    NoAnswer {
        why: String,
        /// Whether asking again within seconds makes sense.
        transient: bool,
    },
    /// The token of the login is not good any more.
    LoginExpired,
    /// The login was refused, or a permission is missing.
    Denied(String),
    /// It makes no sense to ask anybody.
    Unusable(String),
    Interrupted,
}

impl EtcdError {
    /// What it means for a request to the store with this name.
    pub fn of(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            EtcdError::NoAnswer { why, transient } => StoreError::Unreachable { store, why, transient },
            EtcdError::Denied(why) => StoreError::Denied { store, why },
            EtcdError::LoginExpired => StoreError::Denied { store, why: "its login ended".to_owned() },
            EtcdError::Unusable(why) => StoreError::Unusable { store, why },
            EtcdError::Interrupted => StoreError::Interrupted,
        }
    }
}

impl ServerError for EtcdError {
    fn is_no_answer(&self) -> bool {
        matches!(self, EtcdError::NoAnswer { .. })
    }

    fn is_transient(&self) -> bool {
        matches!(self, EtcdError::NoAnswer { transient: true, .. })
    }
}

impl From<RequestError> for EtcdError {
    fn from(error: RequestError) -> EtcdError {
        let no_answer = |why| EtcdError::NoAnswer { why, transient: false };
        match error {
            RequestError::Interrupted => EtcdError::Interrupted,
            RequestError::TimedOut => no_answer("no answer in time".to_owned()),
            RequestError::Broken(why) => no_answer(why),
            RequestError::Denied(why) => EtcdError::Denied(why),
            RequestError::Unusable(why) => EtcdError::Unusable(why),
            // Said by Redis only.
            RequestError::LoginRefused { .. } => no_answer("it is no etcd".to_owned()),
        }
    }
}

impl From<Status> for EtcdError {
    fn from(status: Status) -> EtcdError {
        let says = |text: &str| status.message().contains(text);
        let no_answer = |why: String, transient| EtcdError::NoAnswer { why, transient };
        if status.source().is_some() {
            return no_answer("the connection broke".to_owned(), false);
        }
        match status.code() {
            Code::Unauthenticated => EtcdError::LoginExpired,
            Code::InvalidArgument if says("revision in header is old") => EtcdError::LoginExpired,
            Code::InvalidArgument if says("authentication failed") => {
                EtcdError::Denied("user or password is wrong".to_owned())
            }
            Code::InvalidArgument if says("user name is empty") => EtcdError::Denied(
                "it wants a user: --user NAME and --password-file FILE, or a client certificate".to_owned(),
            ),
            Code::PermissionDenied => EtcdError::Denied(
                "the user may not read and write the keys of this lock; see PERMISSIONS in redlock(1)"
                    .to_owned(),
            ),
            Code::InvalidArgument if says("too many operations") => {
                EtcdError::Unusable("it takes fewer locks at once; see --max-txn-ops of etcd".to_owned())
            }
            Code::ResourceExhausted if says("space exceeded") => {
                no_answer("its database is full; see 'etcdctl alarm list'".to_owned(), false)
            }
            Code::OutOfRange if says("length too large") => {
                no_answer("its answer is too long; is it an etcd?".to_owned(), false)
            }
            Code::Unimplemented => {
                no_answer("it does not know etcd's v3 API; is this the right port?".to_owned(), false)
            }
            Code::Unavailable if says("no leader") => no_answer("it has no leader".to_owned(), true),
            Code::Unavailable | Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded => {
                no_answer(in_short(status.message()), true)
            }
            _ => no_answer(in_short(status.message()), false),
        }
    }
}

/// As much as a line has room for of what a server says: it may be long, and anything.
fn in_short(text: &str) -> String {
    let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
    sanitize(&text.chars().take(200).collect::<String>())
}
