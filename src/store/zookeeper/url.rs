//! The URLs of ZooKeeper.

use std::fmt;

use super::layout::NodeLayout;
use crate::store::credentials::{Credentials, Password};
use crate::store::server_list::ServerList;

/// Where ZooKeeper is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct ZooKeeperAddress {
    /// User and password are those of the scheme "digest".
    pub ensemble: ServerList,
    pub layout: NodeLayout,
}

const FORM: &str = "a ZooKeeper URL looks like zk://[user:password@]host[:port],host[:port][/chroot]";
const PORT: u16 = 2181;
const LONGEST_CHROOT: usize = 512;

impl ZooKeeperAddress {
    /// Reads `zk://[user:password@]host[:port],...[/chroot]`, and `zks://` for TLS. The error never shows the password.
    pub fn parse(text: &str) -> Result<ZooKeeperAddress, String> {
        let (ensemble, path) = ServerList::parse(text, "zks", PORT, FORM)?;
        if ensemble.user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(format!("a user of ZooKeeper has no colon in the name; {FORM}"));
        }
        let chroot = path.trim_end_matches('/');
        let layout = NodeLayout::below(chroot).filter(|_| chroot.len() <= LONGEST_CHROOT);
        let layout = layout.ok_or_else(|| format!("the chroot is no path of ZooKeeper; {FORM}"))?;
        Ok(ZooKeeperAddress { ensemble, layout })
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(self, credentials: &Credentials) -> ZooKeeperAddress {
        ZooKeeperAddress { ensemble: self.ensemble.with(credentials), ..self }
    }

    /// As the scheme "digest" has it. Another password would be another user, who may not use the nodes of this one.
    pub fn login(&self) -> Option<String> {
        let password = self.ensemble.password.as_ref().map(Password::at_start).unwrap_or_default();
        self.ensemble.user.as_ref().map(|user| format!("{user}:{password}"))
    }
}

impl fmt::Display for ZooKeeperAddress {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.ensemble.is_encrypted { "s" } else { "" };
        write!(f, "zk{tls}://{}{}", self.ensemble, self.layout.chroot())
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
