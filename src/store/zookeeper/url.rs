//! The URLs of ZooKeeper.

use std::fmt;

use super::health;
use super::layout::{NodeLayout, ZooKeeperAddress};
use super::store::{CAPABILITIES, ZooKeeper};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
use crate::store::credentials::Password;
use crate::store::queue::{ClusterKind, examine};
use crate::store::server_list::ServerList;

const LONGEST_CHROOT: usize = 512;

impl ClusterKind for NodeLayout {
    const SCHEME: &'static str = "zk";
    const PORT: u16 = 2181;
    const FORM: &'static str =
        "a ZooKeeper URL looks like zk://[user:password@]host[:port],host[:port][/chroot]";
    const SERVERS: &'static str = "servers of one ensemble";
    const CAPABILITIES: Capabilities = CAPABILITIES;

    fn parse(path: &str, ensemble: &ServerList) -> Result<NodeLayout, String> {
        if ensemble.user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err("the name of a ZooKeeper user cannot contain a colon".to_owned());
        }
        let chroot = path.trim_end_matches('/');
        let layout = NodeLayout::below(chroot).filter(|_| chroot.len() <= LONGEST_CHROOT);
        layout.ok_or_else(|| "the chroot is not a path of ZooKeeper".to_owned())
    }

    fn examine(address: &ZooKeeperAddress, terms: &Requirements) -> Vec<Finding> {
        examine(address, &health::CHECKS, terms)
    }

    fn open(address: ZooKeeperAddress) -> Box<dyn StoreAdmin> {
        Box::new(ZooKeeper::new(address))
    }
}

impl ZooKeeperAddress {
    /// The login as the scheme "digest" has it. Another password would be another user, who may not use the nodes of this one.
    pub fn login(&self) -> Option<String> {
        let password = self.cluster.password.as_ref().map(Password::at_start).unwrap_or_default();
        self.cluster.user.as_ref().map(|user| format!("{user}:{password}"))
    }
}

impl fmt::Display for NodeLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.chroot())
    }
}

#[test]
fn urls_are_read_and_shown_without_the_password() {
    for (text, shown) in [
        ("zk://h", "zk://h:2181"),
        ("zk://u:can%40ary@h:1,[::1]:2/locks/ci/", "zk://h:1,[::1]:2/locks/ci"),
        ("zks://a,b:2281", "zks://a:2181,b:2281"),
    ] {
        assert_eq!(ZooKeeperAddress::parse(text).map(|address| address.to_string()), Ok(shown.to_owned()));
    }
    let login = ZooKeeperAddress::parse("zk://u:p%40w@h/x").map(|address| address.login());
    assert_eq!(login, Ok(Some("u:p@w".to_owned())));
    for text in [
        "zk://",
        "zk://a,,b",
        "zk://h:0",
        "zk://:canary@h",
        "zk://u:can/ary@h",
        "zk://h?canary",
        "zk://h/a//canary",
        "zk://h/../canary",
        "zk://h/zookeeper/canary",
    ] {
        let error = ZooKeeperAddress::parse(text).err();
        let is_good = |error: String| error.contains("zk://[user") && !error.contains("canary");
        assert!(error.is_some_and(is_good), "{text}");
    }
}
