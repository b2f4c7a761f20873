//! The addresses of Redis: one of a server or of several that copy it, and those of a quorum.

use super::health;
use super::quorum::{self, Quorum};
use super::store::Redis;
use super::url::RedisAddress;
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
use crate::store::{Credentials, OpenOptions, StoreAddress};

impl StoreAddress for RedisAddress {
    fn password_variable(&self) -> Option<&'static str> {
        Some("REDISCLI_AUTH")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn has_password(&self) -> bool {
        self.login.password.is_some()
    }

    fn plain_server(&self) -> Option<String> {
        (!self.login.tls && self.is_remote()).then(|| self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        let why = || format!("{self} cannot be one of several servers; a quorum has single ones");
        (!self.is_one_server()).then(why)
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(vec![self.with(login)], terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Redis::new(self.with(&options.credentials), options.replicas))
    }
}

/// Independent servers, of which a majority decides.
pub struct QuorumAddress(Vec<RedisAddress>);

impl QuorumAddress {
    /// Reads the URLs of single servers.
    pub fn parse(texts: &[&str]) -> Result<QuorumAddress, String> {
        let mut members: Vec<RedisAddress> = Vec::new();
        for text in texts {
            let address = RedisAddress::parse(text)?;
            if members.iter().any(|known| known.servers == address.servers) {
                return Err(format!("{address} is given twice; the servers of a quorum are independent"));
            }
            members.push(address);
        }
        Ok(QuorumAddress(members))
    }

    fn with(&self, login: &Credentials) -> Vec<RedisAddress> {
        self.0.iter().map(|address| address.with(login)).collect()
    }
}

impl StoreAddress for QuorumAddress {
    fn password_variable(&self) -> Option<&'static str> {
        Some("REDISCLI_AUTH")
    }

    fn capabilities(&self) -> Capabilities {
        quorum::CAPABILITIES
    }

    fn has_password(&self) -> bool {
        self.0.iter().any(RedisAddress::has_password)
    }

    fn plain_server(&self) -> Option<String> {
        self.0.iter().find_map(RedisAddress::plain_server)
    }

    fn even_quorum(&self) -> Option<usize> {
        Some(self.0.len()).filter(|servers| servers.is_multiple_of(2))
    }

    fn refuses_others(&self) -> Option<String> {
        None
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(self.with(login), terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Quorum::new(self.with(&options.credentials)))
    }
}
