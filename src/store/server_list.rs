//! The part that URLs of etcd and of ZooKeeper have in common: a login, servers of one cluster, a path.

use url::{Host, Url};

use super::net::Endpoint;

/// `[user:password@]host[:port],host[:port][/path]`.
pub struct ServerList {
    pub user: Option<String>,
    pub password: Option<String>,
    pub servers: Vec<Endpoint>,
    /// Without the slash in front of it.
    pub path: String,
}

impl ServerList {
    /// Reads what follows `://`. The error, which ends with `form`, never shows the password.
    pub fn parse(text: &str, port: u16, form: &str) -> Result<ServerList, String> {
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
        let password = password.map(percent_decode).transpose()?;
        if user.is_none() && password.is_some() {
            return Err(format!("a password needs its user; {form}"));
        }
        Ok(ServerList { user, password, servers, path: percent_decode(path)? })
    }
}

fn server(text: &str, port: u16) -> Option<Endpoint> {
    // The url crate reads no addresses in a scheme that it does not know.
    let url = Url::parse(&format!("server://{text}")).ok()?;
    let host = match url.host()? {
        Host::Domain(name) => percent_decode(name)?,
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    };
    let is_host = !host.is_empty() && url.username().is_empty() && url.password().is_none();
    let port = url.port().unwrap_or(port);
    (is_host && url.path().is_empty() && port > 0).then_some(Endpoint::Tcp { host, port })
}

fn percent_decode(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
}
