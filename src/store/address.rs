//! The address of a store: what is known of it before it is contacted.

use super::Credentials;
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin, Timeout};

/// An address that was read and checked.
pub trait StoreAddress: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// The URL shows a password to everyone who can list processes.
    fn has_password(&self) -> bool {
        false
    }

    /// The store asks for a login.
    fn takes_login(&self) -> bool {
        true
    }

    /// The variable from which programs of this kind of server take a password.
    fn password_variable(&self) -> Option<&'static str> {
        None
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

    /// Checks that the store is fit to be used so.
    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding>;

    /// Sets the store up for a group of users, or says why it is not shared like that.
    fn share(&self, _group: &str, _timeout: &Timeout) -> Result<(), String> {
        Err("--share is for local: only; a server has users and permissions of its own".to_owned())
    }

    /// The script that a database needs before its first lock.
    fn setup_script(&self) -> Option<&'static str> {
        None
    }

    /// Runs that script, or says why it is not needed.
    fn set_up(&self, _login: &Credentials, _timeout: &Timeout) -> Result<(), String> {
        Err("only PostgreSQL needs a schema; leave it out".to_owned())
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
