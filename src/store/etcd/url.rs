//! The URLs of etcd.

use std::fmt;

use super::health;
use super::layout::{EtcdAddress, KeyLayout};
use super::store::{CAPABILITIES, Etcd};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
#[cfg(test)]
use crate::store::credentials::Password;
use crate::store::queue::{ClusterKind, examine};
use crate::store::server_list::ServerList;

const LONGEST_PREFIX: usize = 512;

impl ClusterKind for KeyLayout {
    const SCHEME: &'static str = "etcd";
    const PORT: u16 = 2379;
    const FORM: &'static str =
        "an etcd URL looks like etcd://[user:password@]host[:port],host[:port][/prefix]";
    const SERVERS: &'static str = "members of one cluster";
    const CAPABILITIES: Capabilities = CAPABILITIES;

    fn parse(path: &str, _: &ServerList) -> Result<KeyLayout, String> {
        if path.len() > LONGEST_PREFIX || path.chars().any(char::is_control) {
            return Err("the prefix is too long, or has control characters".to_owned());
        }
        let end = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        Ok(KeyLayout { prefix: format!("{path}{end}") })
    }

    fn examine(address: &EtcdAddress, terms: &Requirements) -> Vec<Finding> {
        examine(address, &health::CHECKS, terms)
    }

    fn open(address: EtcdAddress) -> Box<dyn StoreAdmin> {
        Box::new(Etcd::new(address))
    }
}

impl fmt::Display for KeyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix.trim_end_matches('/') {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

#[test]
fn urls_are_read_and_shown_without_the_password() {
    for (text, shown) in [
        ("etcd://h", "etcd://h:2379"),
        ("etcd://u:can%40ary@h:1,[::1]:2/locks/ci/", "etcd://h:1,[::1]:2/locks/ci"),
        ("etcds://a,b:6379", "etcds://a:2379,b:6379"),
        ("etcd://h//root", "etcd://h:2379//root"),
    ] {
        assert_eq!(EtcdAddress::parse(text).map(|address| address.to_string()), Ok(shown.to_owned()));
    }
    let address = EtcdAddress::parse("etcd://u:p%40w@h/x");
    let login =
        address.map(|EtcdAddress { cluster, layout }| (cluster.user, cluster.password, layout.prefix));
    assert_eq!(login, Ok((Some("u".to_owned()), Some(Password::Fixed("p@w".to_owned())), "x/".to_owned())));
    for text in
        ["etcd://", "etcd://a,,b", "etcd://h:0", "etcd://:canary@h", "etcd://u:can/ary@h", "etcd://h?canary"]
    {
        let error = EtcdAddress::parse(text).err();
        assert!(
            error.is_some_and(|error| error.contains("etcd://[user") && !error.contains("canary")),
            "{text}"
        );
    }
}
