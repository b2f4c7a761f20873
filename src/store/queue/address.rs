//! The URL of a cluster: its servers, a login, and where its locks are.

use std::fmt;

use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin};
use crate::store::credentials::Credentials;
use crate::store::server_list::ServerList;
use crate::store::{OpenOptions, StoreAddress};

/// A kind of cluster, which knows where the locks are in it.
pub trait ClusterKind: Clone + Send + Sync + Sized + 'static {
    /// The scheme of its URLs; with an s behind it they mean TLS.
    const SCHEME: &'static str;
    const PORT: u16;
    /// The end of all messages about a URL.
    const FORM: &'static str;
    /// The words for several of its servers: "members of one cluster".
    const SERVERS: &'static str;
    const CAPABILITIES: Capabilities;

    /// Reads the path of a URL. The error never shows the password.
    fn parse(path: &str, cluster: &ServerList) -> Result<Self, String>;

    /// Its store is fit to hold locks, or not.
    fn examine(address: &ClusterAddress<Self>, terms: &Requirements) -> Vec<Finding>;

    fn open(address: ClusterAddress<Self>) -> Box<dyn StoreAdmin>;
}

/// Where a cluster is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterAddress<K> {
    pub cluster: ServerList,
    pub layout: K,
}

impl<K: ClusterKind> ClusterAddress<K> {
    /// Reads `scheme://[user:password@]host[:port],...[/path]`. The error never shows the password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (cluster, path) = ServerList::parse(text, &format!("{}s", K::SCHEME), K::PORT, K::FORM)?;
        let layout = K::parse(&path, &cluster).map_err(|why| format!("{why}; {}", K::FORM))?;
        Ok(ClusterAddress { cluster, layout })
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(self, credentials: &Credentials) -> Self {
        ClusterAddress { cluster: self.cluster.with(credentials), ..self }
    }

    /// The address of each server.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        self.cluster.each().map(|cluster| ClusterAddress { cluster, layout: self.layout.clone() })
    }
}

impl<K: ClusterKind + fmt::Display> fmt::Display for ClusterAddress<K> {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.cluster.is_encrypted { "s" } else { "" };
        write!(f, "{}{tls}://{}{}", K::SCHEME, self.cluster, self.layout)
    }
}

impl<K: ClusterKind + fmt::Display> StoreAddress for ClusterAddress<K> {
    fn capabilities(&self) -> Capabilities {
        K::CAPABILITIES
    }

    fn has_password(&self) -> bool {
        self.cluster.password.is_some()
    }

    fn plain_server(&self) -> Option<String> {
        (!self.cluster.is_encrypted).then(|| self.to_string())
    }

    fn refuses_others(&self) -> Option<String> {
        Some(format!("{self} cannot be one of several servers; name the {} in one URL", K::SERVERS))
    }

    fn examine(&self, login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        K::examine(&self.clone().with(login), terms)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        K::open(self.clone().with(&options.credentials))
    }
}
