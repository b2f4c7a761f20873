//! Connections to a server: names, sockets, encryption, and what goes wrong with a request.

mod dns;
pub mod stream;
pub mod tls;
mod wait;

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::lock::StoreError;

pub use self::wait::{check, pause, wait_ready};

/// The longest host name, see RFC 1035.
pub const LONGEST_HOST: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Takes the zone out of a text with an address such as `[fe80::1%25eth0]` (RFC 6874; the plain `%eth0` is common, too),
/// which the url crate does not read. Returns the zone with its `%`, or nothing.
pub fn split_zone(text: &str) -> (String, String) {
    let zoned = || {
        let begin = text.rfind('[')? + 1;
        let end = begin + text[begin..].find(']')?;
        let (address, zone) = text[begin..end].split_once('%')?;
        let zone = zone.strip_prefix("25").unwrap_or(zone);
        let is_name =
            !zone.is_empty() && zone.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        let is_address = address.parse::<Ipv6Addr>().is_ok();
        (is_name && is_address)
            .then(|| (format!("{}{address}{}", &text[..begin], &text[end..]), format!("%{zone}")))
    };
    zoned().unwrap_or_else(|| (text.to_owned(), String::new()))
}

/// A reply, or why there is none.
pub type RequestResult<T> = Result<T, RequestError>;

#[derive(Debug)]
pub enum RequestError {
    /// The connection is of no more use.
    Broken(String),
    /// No reply in time. The connection can still be used: the late reply is skipped.
    TimedOut,
    Interrupted,
    /// The server refuses us.
    Denied(String),
    /// The server refused the login that was sent in front of the request, which may have run as the default user.
    LoginRefused {
        error: ErrorReply,
        may_have_run: bool,
    },
    /// This host cannot connect as it is configured.
    Unusable(String),
}

/// An error that a server reported.
#[derive(Clone, Debug)]
pub enum ErrorReply {
    Denied(String),
    /// The server cannot hold locks, however long one waits.
    Unusable(String),
    /// `transient`: whether asking again within seconds makes sense.
    Failed {
        why: String,
        transient: bool,
    },
}

impl ErrorReply {
    /// The error of a request to the server with this name.
    pub fn of(self, name: &str) -> StoreError {
        let store = name.to_owned();
        match self {
            ErrorReply::Denied(why) => StoreError::Denied { store, why },
            ErrorReply::Unusable(why) => StoreError::Unusable { store, why },
            ErrorReply::Failed { why, transient } => StoreError::Unreachable { store, why, transient },
        }
    }
}

impl RequestError {
    pub fn broken(why: impl Into<String>) -> RequestError {
        RequestError::Broken(why.into())
    }
}
