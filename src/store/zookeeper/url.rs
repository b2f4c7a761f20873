//! The URLs of ZooKeeper.

use std::fmt;

use super::health;
use super::layout::NodeLayout;
use super::store::{CAPABILITIES, ZooKeeper};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
use crate::store::credentials::{Credentials, TlsFiles};
use crate::store::net::Endpoint;
use crate::store::server_list::ServerList;
use crate::store::{OpenOptions, StoreAddress};

/// Where ZooKeeper is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct ZooKeeperAddress {
    /// Of one ensemble: any of them will do.
    pub servers: Vec<Endpoint>,
    pub layout: NodeLayout,
    /// Of the scheme "digest".
    pub user: Option<String>,
    pub password: Option<String>,
    /// The connection is encrypted, and the server has to show a certificate.
    pub tls: bool,
    pub tls_files: Box<TlsFiles>,
}

const FORM: &str = "a ZooKeeper URL looks like zk://[user:password@]host[:port],host[:port][/chroot]";
const PORT: u16 = 2181;
const LONGEST_CHROOT: usize = 512;

impl ZooKeeperAddress {
    /// Reads `zk://[user:password@]host[:port],...[/chroot]`, and `zks://` for TLS. The error never shows the password.
    pub fn parse(text: &str) -> Result<ZooKeeperAddress, String> {
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let ServerList { user, password, servers, path } = ServerList::parse(rest, PORT, FORM)?;
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(format!("a user of ZooKeeper has no colon in the name; {FORM}"));
        }
        let chroot = path.trim_end_matches('/');
        let layout = NodeLayout::below(chroot).filter(|_| chroot.len() <= LONGEST_CHROOT);
        let layout = layout.ok_or_else(|| format!("the chroot is no path of ZooKeeper; {FORM}"))?;
        Ok(ZooKeeperAddress {
            servers,
            layout,
            user,
            password,
            tls: scheme == "zks",
            tls_files: Box::default(),
        })
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(mut self, credentials: &Credentials) -> ZooKeeperAddress {
        self.user = self.user.or_else(|| credentials.user.clone());
        // Without a user it is another program's.
        let password = credentials.password.as_ref().filter(|_| self.user.is_some());
        self.password = self.password.or_else(|| password.cloned());
        self.tls_files = Box::new(credentials.tls_files.clone());
        self
    }

    /// As the scheme "digest" has it.
    pub fn login(&self) -> Option<String> {
        let password = self.password.as_deref().unwrap_or_default();
        self.user.as_ref().map(|user| format!("{user}:{password}"))
    }
}

impl fmt::Display for ZooKeeperAddress {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self.servers.iter().map(Endpoint::to_string).collect();
        let tls = if self.tls { "s" } else { "" };
        write!(f, "zk{tls}://{}{}", servers.join(","), self.layout.chroot())
    }
}

impl StoreAddress for ZooKeeperAddress {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn has_password(&self) -> bool {
        self.password.is_some()
    }

    fn plain_server(&self) -> Option<String> {
        (!self.tls).then(|| self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        Some(format!("{self} cannot be one of several servers; name the servers of one ensemble in one URL"))
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(&self.clone().with(login), terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(ZooKeeper::new(self.clone().with(&options.credentials)))
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
