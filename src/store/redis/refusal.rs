//! What an error reply of the server means for a lock.

use redis::{ServerError, ServerErrorKind, Value};

use crate::lock::StoreError;

/// How a refusal is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The script is not known there: send it in full.
    NoScript,
    /// No login, the wrong one, or a missing permission.
    Denied,
    /// The key holds something else than a string.
    WrongType,
    /// Passes within seconds.
    Transient,
    /// It is a replica, or a master that lost its replicas: where there is another master, that one is to be asked.
    NotMaster,
    /// The server cannot do it now.
    Unable,
}

/// Sorts an error reply.
///
/// A script's errors keep their code from Redis 7 on; 6.2 wraps them into a plain `ERR`, and so does
/// every version with a permission that is missing inside a script. So the text is looked at as well.
pub fn refusal(error: &ServerError) -> Refusal {
    let details = error.details().unwrap_or_default();
    let says = |word: &str| error.code() == word || details.contains(word);
    if error.kind() == Some(ServerErrorKind::NoScript) {
        Refusal::NoScript
    } else if says("WRONGTYPE") {
        Refusal::WrongType
    } else if [
        "NOAUTH",
        "unauthenticated",
        "WRONGPASS",
        "NOPERM",
        "AUTH failed",
        "AUTH <password>",
        "can't run this command",
        "No permissions",
    ]
    .into_iter()
    .any(says)
    {
        Refusal::Denied
    } else if ["LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "max number of clients"]
        .into_iter()
        .any(says)
    {
        Refusal::Transient
    } else if ["READONLY", "NOREPLICAS"].into_iter().any(says) {
        Refusal::NotMaster
    } else {
        Refusal::Unable
    }
}

/// The reply of the server with this name, unless it is an error.
pub fn accepted(reply: Value, name: &str) -> Result<Value, StoreError> {
    match reply {
        Value::ServerError(error) => Err(refused(&error, name)),
        reply => Ok(reply),
    }
}

/// What an error reply of the server with this name means for a request.
pub fn refused(error: &ServerError, name: &str) -> StoreError {
    let (store, why) = (name.to_owned(), explain(error));
    match refusal(error) {
        Refusal::Denied => StoreError::Denied { store, why },
        Refusal::Transient => StoreError::Unreachable { store, why, transient: true },
        _ => StoreError::Unreachable { store, why, transient: false },
    }
}

/// As much as a line has room for of what a server says: it may be long, and anything.
pub fn in_short(text: &str) -> &str {
    const MOST: usize = 200;
    text.char_indices().nth(MOST).map_or(text, |(end, _)| &text[..end])
}

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
