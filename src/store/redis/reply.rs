//! Reading replies, as the server may be anything: each function takes any reply. And what an error reply, or none, means for
//! a lock.

use std::time::Duration;

use redis::{ServerError, ServerErrorKind, Value};

use crate::lock::{Result, StoreError};
use crate::store::net::{ErrorReply, RequestError};

/// The elements of an array reply; none for any other reply.
pub fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// A string reply; empty for any other.
pub fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(text) | Value::VerbatimString { text, .. }) => text.clone(),
        _ => String::new(),
    }
}

/// A number, sent as such or as a string; zero for anything else.
pub fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        other => text(other).parse().unwrap_or(0),
    }
}

/// A number of milliseconds; zero for anything else.
pub fn millis(value: Option<&Value>) -> Duration {
    Duration::from_millis(number(value).max(0) as u64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The server does not know the script: send it in full.
    NoScript,
    /// No login, a wrong one, or a missing permission.
    Denied,
    /// The key holds a value of another type.
    WrongType,
    /// It has no Lua scripts: a Sentinel, or a server built without them.
    NoScripts,
    /// Passes within seconds.
    Transient,
    /// The server is a replica, or a primary that lost its replicas: another server is the primary, if there is one.
    NotPrimary,
    /// The server cannot do it now.
    Unable,
}

/// Sorts an error reply.
///
/// A script's errors keep their code from Redis 7 on; 6.2 wraps them into a plain `ERR`, and so does
/// every version with a permission that is missing inside a script. So the text is looked at as well.
pub fn classify(error: &ServerError) -> ErrorClass {
    const SIGNS: [(ErrorClass, &[&str]); 6] = [
        (ErrorClass::WrongType, &["WRONGTYPE"]),
        (ErrorClass::NoScripts, &["unknown command 'EVAL", "unknown command `EVAL"]),
        (ErrorClass::Denied, &["NOAUTH", "unauthenticated", "WRONGPASS", "NOPERM", "DENIED", "AUTH failed"]),
        (ErrorClass::Denied, &["AUTH <password>", "can't run this command", "No permissions"]),
        (
            ErrorClass::Transient,
            &["LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "max number of clients"],
        ),
        (ErrorClass::NotPrimary, &["READONLY", "NOREPLICAS"]),
    ];
    if error.kind() == Some(ServerErrorKind::NoScript) {
        return ErrorClass::NoScript;
    }
    let details = error.details().unwrap_or_default();
    let says = |word: &&str| error.code() == *word || details.contains(*word);
    let found = SIGNS.iter().find(|(_, words)| words.iter().any(says));
    found.map_or(ErrorClass::Unable, |(class, _)| *class)
}

/// The reply of the server with this name, unless it is an error.
pub fn accepted(reply: Value, name: &str) -> Result<Value> {
    match reply {
        Value::ServerError(error) => Err(error_reply(&error).of(name)),
        reply => Ok(reply),
    }
}

/// The meaning of an error of the server.
pub fn error_reply(error: &ServerError) -> ErrorReply {
    match classify(error) {
        ErrorClass::Denied => ErrorReply::Denied(explain(error)),
        ErrorClass::NoScripts => ErrorReply::Unusable(NO_SCRIPTS.to_owned()),
        class => ErrorReply::Failed { why: explain(error), transient: class == ErrorClass::Transient },
    }
}

impl RequestError {
    /// The meaning of this failure for a request to the server with this name.
    pub fn of(self, name: &str) -> StoreError {
        let store = name.to_owned();
        let why = match self {
            RequestError::Interrupted => return StoreError::Interrupted,
            RequestError::LoginRefused { error, .. } => return error.of(name),
            RequestError::Denied(why) => return StoreError::Denied { store, why },
            RequestError::Unusable(why) => return StoreError::Unusable { store, why },
            RequestError::Broken(why) => why,
            RequestError::TimedOut => "no answer in time".to_owned(),
        };
        StoreError::Unreachable { store, why, transient: false }
    }
}

/// The same error; asking again within seconds makes sense.
pub fn transient(error: StoreError) -> StoreError {
    match error {
        StoreError::Unreachable { store, why, .. } => StoreError::Unreachable { store, why, transient: true },
        other => other,
    }
}

/// The beginning of what a server says, as much as a line has room for: it may be long, and anything.
pub fn in_short(text: &str) -> &str {
    const MOST: usize = 200;
    text.char_indices().nth(MOST).map_or(text, |(end, _)| &text[..end])
}

const NO_SCRIPTS: &str = "it runs no Lua scripts; if this is the port of a Sentinel, name it with redis+sentinel://HOST:PORT/MASTER";
const PROTECTED: &str = "DENIED it is in protected mode, and admits its own host only: \
                         set a password for its default user, or `protected-mode no`";
const LOGIN: &str =
    "it wants a password: --password-file, REDISCLI_AUTH, or the URL in the configuration file";

/// The server's words, with what to do about them where that is not plain.
pub fn explain(error: &ServerError) -> String {
    let details = error.details().unwrap_or_default().lines().next().unwrap_or_default();
    // Behind "unknown command" it repeats what it was sent: the password.
    let details = details.split(", with args beginning").next().unwrap_or(details);
    let details = in_short(details.split(" script: ").next().unwrap_or(details).trim_end_matches(','));
    let code = in_short(error.code());
    let hint = match code {
        // Before the login Redis reads no command as long as ours.
        "ERR" if details.contains("unauthenticated") => return format!("NOAUTH {LOGIN}"),
        "DENIED" if details.contains("protected mode") => return PROTECTED.to_owned(),
        "NOAUTH" => LOGIN,
        "WRONGPASS" => "check --user and the password",
        "NOPERM" => "give the user this permission; the least ACL is in redlock(1)",
        "ERR" if details.contains("can't run this command") => {
            "the user lacks a permission inside scripts; the least ACL is in redlock(1)"
        }
        "ERR" if details.contains("AUTH <password>") => "the server has no password; leave it out",
        "OOM" => "it is out of memory: raise maxmemory or free some",
        "MOVED" => "it is part of a cluster: name it with redis+cluster://",
        "READONLY" => "it is a replica: name its master",
        "MISCONF" => "it cannot save to disk, and so accepts no writes",
        _ => return format!("{code} {details}"),
    };
    format!("{code} {details}; {hint}")
}

/// Replies for tests.
#[cfg(test)]
pub mod samples {
    use super::*;

    pub fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    pub fn array(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    /// Replies of a server that is none, or hostile.
    pub fn garbage() -> Vec<Value> {
        let words =
            ["", "granted", "busy", "mode", "vanished", "exhausted", "extended", "lost", "told", "freed"];
        let numbers = [0, 1, -1, i64::MAX, i64::MIN].map(Value::Int);
        let deep = (0..50).fold(Value::Nil, |inner, _| array([inner]));
        let mut replies = vec![Value::Nil, Value::Okay, Value::Boolean(true), Value::Double(f64::NAN), deep];
        replies.extend(numbers.clone());
        for word in words {
            replies.push(bulk(word));
            replies.push(array([bulk(word)]));
            for number in &numbers {
                replies.push(array([bulk(word), number.clone()]));
                replies.push(array(std::iter::once(bulk(word)).chain(vec![number.clone(); 7])));
            }
            replies.push(array([bulk(word), array([bulk("{"), bulk("\u{1b}[2J")]), array([])]));
            replies.push(array([bulk(word), Value::Int(1), array(vec![Value::Int(i64::MAX); 6]), bulk("x")]));
        }
        replies.push(Value::BulkString(vec![0xff; 1000]));
        replies
    }
}
