//! The address of a store: what is known of it before it is contacted.

use super::Credentials;
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, Result, StoreAdmin, Timeout};

/// An address that was read and checked.
pub trait StoreAddress: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Whether the URL shows a password to everyone who can list processes.
    fn has_password(&self) -> bool {
        false
    }

    /// Whether the store asks who we are.
    fn takes_login(&self) -> bool {
        true
    }

    /// A server that is spoken to in plain.
    fn plain_server(&self) -> Option<String> {
        None
    }

    /// The number of servers of a quorum, where it is even: the last of them does not help.
    fn even_quorum(&self) -> Option<usize> {
        None
    }

    /// Why it cannot be one of several servers that are given.
    fn refuses_others(&self) -> Option<String>;

    /// Whether the store is fit to be used so.
    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding>;

    /// The script that a database needs before its first lock.
    fn setup_script(&self) -> Option<&'static str> {
        None
    }

    /// Runs that script.
    fn set_up(&self, _login: &Credentials, _timeout: &Timeout) -> Result<()> {
        Ok(())
    }

    /// The store. It contacts nothing before its first call.
    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin>;
}

#[derive(Clone, Default)]
pub struct OpenOptions {
    pub credentials: Credentials,
    /// As many replicas of the server have to have a lock before it counts as acquired, or as renewed.
    pub replicas: u8,
    /// The processes that keep alive what is acquired: a store on the same host frees a lock as soon as all of them are
    /// gone. Without any, a lock lasts until the end of its lease.
    pub holders: Vec<u32>,
}
