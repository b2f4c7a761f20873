//! etcd v3: one member or several of a cluster, in one line with `etcdctl lock`.
//!
//! From the bottom to the top: `socket` and `client` (a connection and its calls), `members` (which member is asked, within
//! which time), `layout` and `lease_id` (what a lock is in etcd), `ledger` (the calls that locks are made of), and the
//! store.

mod client;
mod error;
mod health;
mod keep_alive;
mod key_data;
mod layout;
mod lease_id;
mod ledger;
mod members;
mod message;
mod predecessors;
mod recipe;
mod release;
mod runtime;
mod socket;
mod status;
mod store;
mod streams;
mod url;
mod waiter;

use self::store::{CAPABILITIES, Etcd};
pub use self::url::EtcdAddress;
use super::{Credentials, OpenOptions, StoreAddress};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};

/// Reads what a member may answer, and the values of the keys in it.
#[cfg(any(test, fuzzing))]
pub fn read_anything(bytes: &[u8]) {
    let values = message::read_answer(bytes).into_iter().map(|kv| kv.value);
    values.chain([bytes.to_vec()]).for_each(|value| _ = key_data::KeyData::from_untrusted(&value));
}

impl StoreAddress for EtcdAddress {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn has_password(&self) -> bool {
        self.members.password.is_some()
    }

    fn plain_server(&self) -> Option<String> {
        (!self.members.is_encrypted).then(|| self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        Some(format!("{self} cannot be one of several servers; name the members of one cluster in one URL"))
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(&self.clone().with(login), terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Etcd::new(self.clone().with(&options.credentials)))
    }
}
