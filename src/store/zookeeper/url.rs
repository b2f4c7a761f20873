//! The URLs of ZooKeeper.

use std::fmt;

use url::{Host, Url};

use super::health;
use super::layout::NodeLayout;
use super::store::{CAPABILITIES, ZooKeeper};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
use crate::store::credentials::{Credentials, TlsFiles};
use crate::store::net::Endpoint;
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
        if rest.contains(['?', '#']) {
            return Err(format!("'?' and '#' have no meaning (write them as %3F and %23); {FORM}"));
        }
        // Everything up to the last @ before the path is the login.
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        // A password that is not well written may be in it, so it is not shown.
        let servers = hosts.split(',').map(server).collect::<Option<Vec<_>>>();
        let servers = servers.ok_or_else(|| format!("one of the hosts cannot be read; {FORM}"))?;
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        let user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
        let password = password.map(percent_decode).transpose()?;
        if user.is_none() && password.is_some() {
            return Err(format!("a password needs its user; {FORM}"));
        }
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(format!("a user of ZooKeeper has no colon in the name; {FORM}"));
        }
        let chroot = percent_decode(path)?;
        let chroot = chroot.trim_end_matches('/');
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

fn server(text: &str) -> Option<Endpoint> {
    let url = Url::parse(&format!("zk://{text}")).ok()?;
    let host = match url.host()? {
        // The url crate reads no addresses in a scheme that it does not know.
        Host::Domain(name) => percent_decode(name).ok()?,
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    };
    let is_host = !host.is_empty() && url.username().is_empty() && url.password().is_none();
    let port = url.port().unwrap_or(PORT);
    (is_host && url.path().is_empty() && port > 0).then_some(Endpoint::Tcp { host, port })
}

fn percent_decode(text: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| format!("it is not UTF-8; {FORM}"))
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
