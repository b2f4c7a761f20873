//! The stores, and the choice among them.

mod address;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "zookeeper"))]
mod attempts;
#[cfg(any(feature = "etcd", feature = "memcached", feature = "postgres", feature = "zookeeper"))]
mod call_error;
pub mod credentials;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "local")]
mod local;
#[cfg(feature = "memcached")]
mod memcached;
mod misspelt_url;
#[cfg(any(
    feature = "etcd",
    feature = "memcached",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod net;
mod polling;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod scheme;
#[cfg(any(feature = "etcd", feature = "memcached", feature = "zookeeper"))]
mod server_list;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::fmt;
use std::sync::Arc;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use std::time::Duration;

pub use self::address::{OpenOptions, StoreAddress};
pub use self::credentials::{Credentials, Password, Roots, TlsFiles};
use self::misspelt_url::Intended;
pub use self::polling::PollSchedule;
pub use self::scheme::{SCHEMES, Scheme};
use crate::doctor::{Check, Finding, Findings, Requirements};
use crate::lock::{Capabilities, StoreAdmin, Timeout};

/// Readers of what a server may send.
#[cfg(any(test, fuzzing))]
pub mod replies {
    #[cfg(feature = "etcd")]
    pub use super::etcd::read_anything as etcd;
    #[cfg(feature = "redis")]
    pub use super::redis::read_anything as redis;
    #[cfg(feature = "zookeeper")]
    pub use super::zookeeper::read_anything as zookeeper;
}

/// Where locks are kept: one URL, or those of a quorum.
#[derive(Clone)]
pub struct ServerUrl {
    address: Arc<dyn StoreAddress>,
    /// Without user and password.
    name: Arc<str>,
}

/// After a release the lease, or the session, is ended so much later where others want the lock: servers write one
/// entry after the other, and etcd's revocation in front of the next grant took a fifth of a handover.
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
const HANDOVER: Duration = Duration::from_millis(3);

const FORMS: &str = "redis://host[:port][/db], rediss:// for TLS, redis+unix:///path, redis+sentinel://, redis+cluster://, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, memcached://host[:port], postgres://host[:port]/database, or local: for a lock on this host only";

impl ServerUrl {
    /// Reads server URLs: one, or those of a quorum. The error never shows a password.
    pub fn parse(texts: &[&str]) -> Result<ServerUrl, String> {
        let texts: Vec<String> = texts.iter().map(|text| scheme::canonical(text)).collect();
        let texts = &texts.iter().map(String::as_str).collect::<Vec<_>>();
        let urls = texts.iter().map(|text| ServerUrl::parse_one(text)).collect::<Result<Vec<_>, _>>()?;
        if let [one] = &urls[..] {
            return Ok(one.clone());
        }
        match urls.iter().find_map(|url| url.address.refuses_others()) {
            Some(why) => Err(why),
            None => {
                let names: Vec<&str> = urls.iter().map(|url| &*url.name).collect();
                Ok(ServerUrl { name: names.join(",").into(), address: ServerUrl::parse_quorum(texts)? })
            }
        }
    }

    fn parse_one(text: &str) -> Result<ServerUrl, String> {
        ServerUrl::parse_scheme(text).map_err(|why| match Intended::of(text) {
            Some(meant) => format!("{text}: {why}; {meant}"),
            None => why,
        })
    }

    /// A new store has its line here, and its schemes in `scheme.rs`.
    fn parse_scheme(text: &str) -> Result<ServerUrl, String> {
        let Some((scheme, _)) = text.split_once(':') else {
            return Err(format!("a server is {FORMS}"));
        };
        if let Some(why) = misspelt_url::unsupported(scheme) {
            return Err(why.to_owned());
        }
        Ok(match Scheme::named(scheme).map(|known| known.feature) {
            #[cfg(feature = "local")]
            Some("local") => ServerUrl::of(local::LocalAddress::parse(text)?),
            #[cfg(feature = "redis")]
            Some("redis") => ServerUrl::of(redis::RedisAddress::parse(text)?),
            #[cfg(feature = "etcd")]
            Some("etcd") => ServerUrl::of(etcd::EtcdAddress::parse(text)?),
            #[cfg(feature = "zookeeper")]
            Some("zookeeper") => ServerUrl::of(zookeeper::ZooKeeperAddress::parse(text)?),
            #[cfg(feature = "memcached")]
            Some("memcached") => ServerUrl::of(memcached::MemcachedAddress::parse(text)?),
            #[cfg(feature = "postgres")]
            Some("postgres") => ServerUrl::of(postgres::PostgresAddress::parse(text)?),
            Some(feature) => {
                return Err(format!(
                    "{scheme}: is not in this build of redlock (cargo feature {feature}); a server is {FORMS}"
                ));
            }
            None if text.contains("://") && scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return Err(format!("redlock has no store {scheme}://; a server is {FORMS}"));
            }
            None => return Err(format!("a server is {FORMS}")),
        })
    }

    #[cfg(any(
        feature = "etcd",
        feature = "local",
        feature = "memcached",
        feature = "postgres",
        feature = "redis",
        feature = "zookeeper"
    ))]
    fn of(address: impl StoreAddress + fmt::Display + 'static) -> ServerUrl {
        ServerUrl { name: address.to_string().into(), address: Arc::new(address) }
    }

    #[cfg(feature = "redis")]
    fn parse_quorum(texts: &[&str]) -> Result<Arc<dyn StoreAddress>, String> {
        Ok(Arc::new(redis::QuorumAddress::parse(texts)?))
    }

    #[cfg(not(feature = "redis"))]
    fn parse_quorum(_texts: &[&str]) -> Result<Arc<dyn StoreAddress>, String> {
        Err(format!("a server is {FORMS}"))
    }

    /// A URL shows a password to everyone who can list processes.
    pub fn has_password(&self) -> bool {
        self.address.has_password()
    }

    /// There is a password, or a key, to be kept secret.
    pub fn is_secret(&self, login: &Credentials) -> bool {
        let has_login =
            login.password.is_some() || login.sentinel_password.is_some() || login.tls_files.key.is_some();
        self.has_password() || (has_login && self.takes_login())
    }

    /// True if the store asks for a login.
    pub fn takes_login(&self) -> bool {
        self.address.takes_login()
    }

    /// The variable from which programs of this kind of server take a password. It is the weakest source.
    pub fn password_variable(&self) -> Option<&'static str> {
        self.address.password_variable()
    }

    /// A server that is spoken to in plain.
    pub fn plain_server(&self) -> Option<String> {
        self.address.plain_server()
    }

    pub fn capabilities(&self) -> Capabilities {
        self.address.capabilities()
    }

    /// The number of servers, where it is even: the last of them does not help.
    pub fn even_quorum(&self) -> Option<usize> {
        self.address.even_quorum()
    }

    /// Checks that the store is fit to be used so.
    pub fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        let mut findings = Vec::new();
        if terms.replicas > 0
            && let Err(why) = self.capabilities().replicas
        {
            let mut report = Findings::about(format!("--replicas {}", terms.replicas));
            report.bad(Check::Replicas, why, "leave out --replicas: with it no lock is taken here");
            findings.append(&mut report.findings);
        }
        findings.extend(self.address.examine(login, terms));
        findings
    }

    /// Sets the store up for a group of users.
    pub fn share(&self, group: &str, timeout: &Timeout) -> Result<(), String> {
        self.address.share(group, timeout)
    }

    /// The script that a database needs before its first lock.
    pub fn setup_script(&self) -> Option<&'static str> {
        self.address.setup_script()
    }

    /// Runs that script.
    pub fn set_up(&self, login: &Credentials, timeout: &Timeout) -> Result<(), String> {
        self.address.set_up(login, timeout)
    }

    /// The store at this address. It contacts nothing before its first call.
    pub fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        self.address.open(options)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// This URL means another store in each folder from which redlock starts.
pub fn is_relative(url: &str) -> bool {
    url.strip_prefix("local:").is_some_and(|path| !path.is_empty() && !path.starts_with('/'))
}
