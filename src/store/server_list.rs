//! The part that URLs of etcd and of ZooKeeper have in common: a login, servers of one cluster, a path.

use std::fmt;

use url::{Host, Url};

use super::credentials::{Credentials, Password, TlsFiles};
use super::net::{self, Endpoint};

/// The servers of one cluster, any of which will do, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerList {
    pub servers: Vec<Endpoint>,
    pub user: Option<String>,
    pub password: Option<Password>,
    /// The connection is encrypted, and the server has to show a certificate.
    pub is_encrypted: bool,
    tls_files: Box<TlsFiles>,
}

impl ServerList {
    /// Reads `scheme://[user:password@]host[:port],host[:port][/path]`, and returns the path without the slash in front of
    /// it. The connection is encrypted if the scheme is `encrypted`. The error, which ends with `form`, never shows the
    /// password.
    pub fn parse(text: &str, encrypted: &str, port: u16, form: &str) -> Result<(ServerList, String), String> {
        let (scheme, text) = text.split_once("://").ok_or(form)?;
        if text.contains(['?', '#']) {
            return Err(format!("'?' and '#' have no meaning (write them as %3F and %23); {form}"));
        }
        let percent_decode = |text| percent_decode(text).ok_or_else(|| format!("it is not UTF-8; {form}"));
        // Everything up to the last @ before the path is the login.
        let (place, path) = text.split_once('/').unwrap_or((text, ""));
        let (login, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let servers = hosts.split(',').map(|host| server(host, port)).collect::<Option<Vec<_>>>();
        // A password that is not well written may be in it, so it is not shown.
        let servers = servers.ok_or_else(|| format!("one of the hosts cannot be read; {form}"))?;
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        let user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
        let password = password.map(percent_decode).transpose()?.map(Password::Fixed);
        if user.is_none() && password.is_some() {
            return Err(format!("a password needs its user; {form}"));
        }
        let (is_encrypted, tls_files) = (scheme == encrypted, Box::default());
        Ok((ServerList { servers, user, password, is_encrypted, tls_files }, percent_decode(path)?))
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(mut self, credentials: &Credentials) -> ServerList {
        self.user = self.user.or_else(|| credentials.user.clone());
        // Without a user it is another program's.
        let password = credentials.password.as_ref().filter(|_| self.user.is_some());
        self.password = self.password.or_else(|| password.cloned());
        self.tls_files = Box::new(credentials.tls_files.clone());
        self
    }

    /// Each server by itself.
    pub fn each(&self) -> impl Iterator<Item = ServerList> {
        self.servers.iter().map(|server| ServerList { servers: vec![server.clone()], ..self.clone() })
    }

    /// The files for TLS, if the connection is encrypted.
    pub fn tls(&self) -> Option<&TlsFiles> {
        self.is_encrypted.then_some(&*self.tls_files)
    }
}

impl fmt::Display for ServerList {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self.servers.iter().map(Endpoint::to_string).collect();
        f.write_str(&servers.join(","))
    }
}

fn server(text: &str, port: u16) -> Option<Endpoint> {
    // The url crate reads no addresses in a scheme that it does not know.
    let (text, zone) = net::split_zone(text);
    let url = Url::parse(&format!("server://{text}")).ok()?;
    let host = match url.host()? {
        Host::Domain(name) => percent_decode(name)?,
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => format!("{ip}{zone}"),
    };
    let is_host = !host.is_empty() && url.username().is_empty() && url.password().is_none();
    let port = url.port().unwrap_or(port);
    (is_host && url.path().is_empty() && port > 0).then_some(Endpoint::Tcp { host, port })
}

fn percent_decode(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
}
