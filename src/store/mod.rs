//! The stores, and the choice among them.

mod local;
mod redis;

use std::io;
use std::path::{self, PathBuf};

use crate::lock::Store;

/// A store's address, read and checked; nothing was contacted yet.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerUrl {
    /// A file on this host; `None` is the default one.
    Local(Option<PathBuf>),
    Redis(redis::Address),
}

/// How to log in where the URL does not say.
#[derive(Clone, Default)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
}

const FORMS: &str = "redis://host[:port][/db], redis+unix:///path, or local: for a lock on this host only";

impl ServerUrl {
    /// Reads a server URL. The error never shows a password.
    pub fn parse(text: &str) -> Result<ServerUrl, String> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("a server is {FORMS}"));
        };
        match scheme {
            "local" if rest.contains('\0') => Err(format!("a path has no NUL bytes; a server is {FORMS}")),
            "local" => {
                Ok(ServerUrl::Local(Some(PathBuf::from(rest)).filter(|path| !path.as_os_str().is_empty())))
            }
            "redis" => redis::Address::parse(text).map(ServerUrl::Redis),
            "redis+unix" => redis::Address::unix(text).map(ServerUrl::Redis),
            "rediss" | "redis+sentinel" | "redis+cluster" | "etcd" | "etcds" | "zk" => {
                Err(format!("{scheme}: is not supported yet; a server is {FORMS}"))
            }
            _ => Err(format!("unknown kind of server; a server is {FORMS}")),
        }
    }

    /// Whether the URL shows a password to everyone who can list processes.
    pub fn has_password(&self) -> bool {
        matches!(self, ServerUrl::Redis(address) if address.password.is_some())
    }

    /// Whether there is a password to be kept secret.
    pub fn is_secret(&self, login: &Login) -> bool {
        self.has_password() || (login.password.is_some() && matches!(self, ServerUrl::Redis(_)))
    }

    /// The same server, for a process that leaves this folder.
    pub fn absolute(self) -> io::Result<ServerUrl> {
        match self {
            ServerUrl::Local(Some(path)) => Ok(ServerUrl::Local(Some(path::absolute(path)?))),
            other => Ok(other),
        }
    }

    /// The store at this address.
    pub fn open(self, login: Login) -> Box<dyn Store> {
        match self {
            ServerUrl::Local(path) => Box::new(local::Local::new(path)),
            ServerUrl::Redis(mut address) => {
                if address.password.is_none() {
                    address.password = login.password;
                    address.user = address.user.or(login.user);
                }
                Box::new(redis::Redis::new(address))
            }
        }
    }
}
