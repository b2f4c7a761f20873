//! The stores, and the choice among them.

pub mod credentials;
#[cfg(feature = "etcd")]
mod etcd;
mod intended;
mod local;
mod net;
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::io;
use std::path::{self, PathBuf};

pub use self::credentials::{Credentials, Roots, TlsFiles};
use self::intended::Intended;
use crate::doctor::{Check, Finding, Findings, Requirements};
use crate::lock::{Capabilities, StoreAdmin};

/// A store's address, read and checked; nothing was contacted yet.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerUrl {
    /// A file on this host; `None` is the default one.
    Local(Option<PathBuf>),
    Redis(redis::Address),
    /// Independent Redis servers, of which a majority decides.
    Quorum(Vec<redis::Address>),
    /// Members of one etcd cluster.
    #[cfg(feature = "etcd")]
    Etcd(Box<etcd::Address>),
    /// Servers of one ZooKeeper ensemble.
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Box<zookeeper::Address>),
}

#[derive(Clone, Default)]
pub struct OpenOptions {
    pub credentials: Credentials,
    /// As many replicas of the server have to have a lock before it counts as taken, or as renewed.
    pub replicas: u8,
    /// The processes that keep alive what is taken: a store on the same host frees a lock as soon as all of them are
    /// gone. Without any, a lock lasts until the end of its lease.
    pub holders: Vec<u32>,
}

const FORMS: &str = "redis://host[:port][/db], rediss:// for TLS, redis+unix:///path, redis+sentinel://, redis+cluster://, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local: for a lock on this host only";

impl ServerUrl {
    /// Reads server URLs: one, or those of a quorum. The error never shows a password.
    pub fn parse(texts: &[&str]) -> Result<ServerUrl, String> {
        let urls = texts.iter().map(|text| ServerUrl::parse_one(text)).collect::<Result<Vec<_>, _>>()?;
        if let [one] = &urls[..] {
            return Ok(one.clone());
        }
        let mut members: Vec<redis::Address> = Vec::new();
        for url in urls {
            let address = match url {
                ServerUrl::Redis(address) => address,
                #[cfg(feature = "etcd")]
                ServerUrl::Etcd(address) => {
                    return Err(format!(
                        "{address} cannot be one of several servers; name the members of one cluster in one URL"
                    ));
                }
                #[cfg(feature = "zookeeper")]
                ServerUrl::ZooKeeper(address) => {
                    return Err(format!(
                        "{address} cannot be one of several servers; name the servers of one ensemble in one URL"
                    ));
                }
                _ => return Err("local: cannot be one of several servers".to_owned()),
            };
            if !address.is_one_server() {
                return Err(format!("{address} cannot be one of several servers; a quorum has single ones"));
            }
            if members.iter().any(|known| known.servers == address.servers) {
                return Err(format!("{address} is given twice; the servers of a quorum are independent"));
            }
            members.push(address);
        }
        Ok(ServerUrl::Quorum(members))
    }

    fn parse_one(text: &str) -> Result<ServerUrl, String> {
        ServerUrl::parse_scheme(text).map_err(|why| match Intended::of(text) {
            Some(meant) => format!("{text}: {why}; {meant}"),
            None => why,
        })
    }

    fn parse_scheme(text: &str) -> Result<ServerUrl, String> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("a server is {FORMS}"));
        };
        match scheme {
            "local" if rest.contains('\0') => Err(format!("a path has no NUL bytes; a server is {FORMS}")),
            "local" => {
                Ok(ServerUrl::Local(Some(PathBuf::from(rest)).filter(|path| !path.as_os_str().is_empty())))
            }
            "redis" | "rediss" | "redis+unix" | "redis+sentinel" | "redis+cluster" | "rediss+sentinel"
            | "rediss+cluster" => redis::Address::parse(text).map(ServerUrl::Redis),
            #[cfg(feature = "etcd")]
            "etcd" | "etcds" => etcd::Address::parse(text).map(Box::new).map(ServerUrl::Etcd),
            #[cfg(not(feature = "etcd"))]
            "etcd" | "etcds" => Err(format!(
                "{scheme}: is not in this build of redlock (cargo feature etcd); a server is {FORMS}"
            )),
            #[cfg(feature = "zookeeper")]
            "zk" | "zks" => zookeeper::Address::parse(text).map(Box::new).map(ServerUrl::ZooKeeper),
            #[cfg(not(feature = "zookeeper"))]
            "zk" | "zks" => Err(format!(
                "{scheme}: is not in this build of redlock (cargo feature zookeeper); a server is {FORMS}"
            )),
            _ => Err(format!("a server is {FORMS}")),
        }
    }

    /// Whether a URL shows a password to everyone who can list processes.
    pub fn has_password(&self) -> bool {
        #[cfg(feature = "etcd")]
        if let ServerUrl::Etcd(address) = self {
            return address.password.is_some();
        }
        #[cfg(feature = "zookeeper")]
        if let ServerUrl::ZooKeeper(address) = self {
            return address.password.is_some();
        }
        self.addresses().iter().any(|address| address.login.password.is_some())
    }

    /// Whether there is a password, or a key, to be kept secret.
    pub fn is_secret(&self, login: &Credentials) -> bool {
        let has_login =
            login.password.is_some() || login.sentinel_password.is_some() || login.tls_files.key.is_some();
        self.has_password() || (has_login && !matches!(self, ServerUrl::Local(_)))
    }

    /// A server that is spoken to in plain.
    pub fn plain_server(&self) -> Option<String> {
        #[cfg(feature = "etcd")]
        if let ServerUrl::Etcd(address) = self {
            return (!address.tls).then(|| address.to_string());
        }
        #[cfg(feature = "zookeeper")]
        if let ServerUrl::ZooKeeper(address) = self {
            return (!address.tls).then(|| address.to_string());
        }
        let plain = self.addresses().iter().find(|address| !address.login.tls && address.is_remote());
        plain.map(redis::Address::to_string)
    }

    pub fn capabilities(&self) -> Capabilities {
        match self {
            ServerUrl::Local(_) => local::CAPABILITIES,
            ServerUrl::Redis(_) => redis::CAPABILITIES,
            ServerUrl::Quorum(_) => redis::QUORUM_CAPABILITIES,
            #[cfg(feature = "etcd")]
            ServerUrl::Etcd(_) => etcd::CAPABILITIES,
            #[cfg(feature = "zookeeper")]
            ServerUrl::ZooKeeper(_) => zookeeper::CAPABILITIES,
        }
    }

    pub fn addresses(&self) -> &[redis::Address] {
        match self {
            ServerUrl::Local(_) => &[],
            ServerUrl::Redis(address) => std::slice::from_ref(address),
            ServerUrl::Quorum(members) => members,
            #[cfg(feature = "etcd")]
            ServerUrl::Etcd(_) => &[],
            #[cfg(feature = "zookeeper")]
            ServerUrl::ZooKeeper(_) => &[],
        }
    }

    /// The number of servers, where it is even: the last of them does not help.
    pub fn even_quorum(&self) -> Option<usize> {
        let servers = self.addresses().len();
        (servers > 0 && servers.is_multiple_of(2)).then_some(servers)
    }

    /// The same server, independent of the current folder.
    pub fn absolute(self) -> io::Result<ServerUrl> {
        match self {
            ServerUrl::Local(Some(path)) => Ok(ServerUrl::Local(Some(path::absolute(path)?))),
            other => Ok(other),
        }
    }

    /// Whether the store is fit to be used so.
    pub fn examine(self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        let mut findings = Vec::new();
        if terms.replicas > 0
            && let Err(why) = self.capabilities().replicas
        {
            let mut report = Findings::about(format!("--replicas {}", terms.replicas));
            report.bad(Check::Replicas, why, "leave out --replicas: with it no lock is taken here");
            findings.append(&mut report.findings);
        }
        findings.extend(match self {
            ServerUrl::Local(path) => local::examine(path, terms),
            #[cfg(feature = "etcd")]
            ServerUrl::Etcd(address) => etcd::examine(&address.with(login), terms),
            #[cfg(feature = "zookeeper")]
            ServerUrl::ZooKeeper(address) => zookeeper::examine(&address.with(login), terms),
            redis => redis::examine(redis.logged_in(login), terms),
        });
        findings
    }

    /// The Redis servers, with the login for each of them.
    fn logged_in(&self, login: &Credentials) -> Vec<redis::Address> {
        self.addresses().iter().map(|address| address.with(login)).collect()
    }

    /// The store at this address. It contacts nothing before its first call.
    pub fn open(self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        let OpenOptions { credentials, replicas, holders } = options;
        match self {
            ServerUrl::Local(path) => Box::new(local::Local::new(path, holders)),
            ServerUrl::Redis(address) => Box::new(redis::Redis::new(address.with(&credentials), replicas)),
            ServerUrl::Quorum(_) => Box::new(redis::Quorum::new(self.logged_in(&credentials))),
            #[cfg(feature = "etcd")]
            ServerUrl::Etcd(address) => Box::new(etcd::Etcd::new(address.with(&credentials))),
            #[cfg(feature = "zookeeper")]
            ServerUrl::ZooKeeper(address) => Box::new(zookeeper::ZooKeeper::new(address.with(&credentials))),
        }
    }
}
