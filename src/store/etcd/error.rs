//! The meaning of etcd's errors.

use std::error::Error;

use tonic::{Code, Status};

use crate::sanitize::sanitize;
use crate::store::call_error::CallError;

impl From<Status> for CallError {
    fn from(status: Status) -> CallError {
        let says = |text: &str| status.message().contains(text);
        if status.source().is_some() {
            return CallError::no_answer("the connection broke");
        }
        match status.code() {
            Code::Unauthenticated => CallError::Expired,
            Code::InvalidArgument if says("revision in header is old") => CallError::Expired,
            Code::InvalidArgument if says("authentication failed") => {
                CallError::Denied("user or password is wrong".to_owned())
            }
            Code::InvalidArgument if says("user name is empty") => CallError::Denied(
                "it wants a user: --user NAME and --password-file FILE, or a client certificate".to_owned(),
            ),
            Code::PermissionDenied => CallError::Denied(
                "the user may not read and write the keys of this lock; see PERMISSIONS in redlock(1)"
                    .to_owned(),
            ),
            Code::InvalidArgument if says("too many operations") => {
                CallError::Unusable("it takes fewer locks at once; see --max-txn-ops of etcd".to_owned())
            }
            Code::ResourceExhausted if says("space exceeded") => {
                CallError::no_answer("its database is full; see 'etcdctl alarm list'")
            }
            Code::OutOfRange if says("length too large") => {
                CallError::no_answer("its answer is too long; is it an etcd?")
            }
            Code::Unimplemented => {
                CallError::no_answer("it does not know etcd's v3 API; is this the right port?")
            }
            Code::FailedPrecondition if says("not supported for learner") => CallError::no_answer(
                "it is a learner, which holds no locks yet; name the voting members of the cluster",
            ),
            Code::Unavailable if says("no leader") => CallError::transient("it has no leader"),
            Code::Unavailable | Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded => {
                CallError::transient(in_short(status.message()))
            }
            _ => CallError::no_answer(in_short(status.message())),
        }
    }
}

/// As much as a line has room for of what a server says: it may be long, and anything.
fn in_short(text: &str) -> String {
    let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
    sanitize(&text.chars().take(200).collect::<String>())
}
