//! The URLs of etcd.

use std::fmt;

use super::health;
use super::layout::KeyLayout;
use super::store::{CAPABILITIES, Etcd};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
use crate::store::credentials::{Credentials, TlsFiles};
use crate::store::net::Endpoint;
use crate::store::server_list::ServerList;
use crate::store::{OpenOptions, StoreAddress};

/// Where etcd is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// Members of one cluster: any of them will do.
    pub members: Vec<Endpoint>,
    pub layout: KeyLayout,
    pub user: Option<String>,
    pub password: Option<String>,
    /// The connection is encrypted, and the server has to show a certificate.
    pub tls: bool,
    pub tls_files: Box<TlsFiles>,
}

const FORM: &str = "an etcd URL looks like etcd://[user:password@]host[:port],host[:port][/prefix]";
const PORT: u16 = 2379;

impl EtcdAddress {
    /// Reads `etcd://[user:password@]host[:port],...[/prefix]`, and `etcds://` for TLS. The error never shows the
    /// password.
    pub fn parse(text: &str) -> Result<EtcdAddress, String> {
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let ServerList { user, password, servers, path: mut prefix } = ServerList::parse(rest, PORT, FORM)?;
        if prefix.len() > LONGEST_PREFIX || prefix.chars().any(char::is_control) {
            return Err(format!("the prefix is too long, or has control characters; {FORM}"));
        }
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        let layout = KeyLayout { prefix };
        Ok(EtcdAddress {
            members: servers,
            layout,
            user,
            password,
            tls: scheme == "etcds",
            tls_files: Box::default(),
        })
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(mut self, credentials: &Credentials) -> EtcdAddress {
        self.user = self.user.or_else(|| credentials.user.clone());
        // Without a user it is another program's.
        let password = credentials.password.as_ref().filter(|_| self.user.is_some());
        self.password = self.password.or_else(|| password.cloned());
        self.tls_files = Box::new(credentials.tls_files.clone());
        self
    }
}

const LONGEST_PREFIX: usize = 512;

impl fmt::Display for EtcdAddress {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> = self.members.iter().map(Endpoint::to_string).collect();
        let tls = if self.tls { "s" } else { "" };
        write!(f, "etcd{tls}://{}", members.join(","))?;
        match self.layout.prefix.trim_end_matches('/') {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

impl StoreAddress for EtcdAddress {
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
        Some(format!("{self} cannot be one of several servers; name the members of one cluster in one URL"))
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(&self.clone().with(login), terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Etcd::new(self.clone().with(&options.credentials)))
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
    let login = address.map(|address| (address.user, address.password, address.layout.prefix));
    assert_eq!(login, Ok((Some("u".to_owned()), Some("p@w".to_owned()), "x/".to_owned())));
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
