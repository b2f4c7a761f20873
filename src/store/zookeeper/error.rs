//! The meaning of ZooKeeper's errors.

use super::jute::Malformed;
use super::message::Code;
use crate::store::call_error::CallError;

pub type ZooKeeperResult<T> = Result<T, CallError>;

impl From<Malformed> for CallError {
    fn from(_: Malformed) -> CallError {
        CallError::no_answer("it does not speak the protocol of ZooKeeper; is this the right port?")
    }
}

impl From<Code> for CallError {
    fn from(code: Code) -> CallError {
        match code {
            Code::SESSION_EXPIRED => CallError::Expired,
            Code::SESSION_MOVED => CallError::transient("the session moved to another server"),
            Code::NO_AUTH => CallError::Denied(
                "user and password may not use the nodes of this lock (none, or the wrong ones); see PERMISSIONS in redlock(1)"
                    .to_owned(),
            ),
            Code::AUTH_FAILED => CallError::Denied("user or password is wrong".to_owned()),
            Code(-108) => CallError::Unusable(
                "another program has an ephemeral node on the path of this lock; choose another key".to_owned(),
            ),
            Code(-123 | -124) => CallError::Denied("it wants another way to log in (SASL)".to_owned()),
            Code(-125) => CallError::no_answer("a quota does not allow the nodes of this lock"),
            Code(-119) => CallError::transient("it is read-only, as it has lost its leader"),
            Code(number) => CallError::transient(format!("it answered with the error {number}")),
        }
    }
}
