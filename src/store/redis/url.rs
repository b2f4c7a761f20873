//! The URLs of Redis.

use std::fmt;
use std::path::PathBuf;

use url::{Host, ParseError, Url};

use super::login::Login;
use crate::store::credentials::{Credentials, Password};
use crate::store::net::{self, Endpoint};

#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    pub servers: ServerAddress,
    pub login: Login,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    One(Endpoint),
    /// The one that these Sentinels call the master of this name.
    Sentinel {
        sentinels: Vec<Endpoint>,
        master: String,
    },
    /// The one of a Redis Cluster that has the slot of the key; some of its servers.
    Cluster(Vec<Endpoint>),
}

const FORM: &str = "a Redis URL looks like redis://[user[:password]@]host[:port][/db]";
const NO_MEANING: &str = "'?' and '#' have no meaning (write them as %3F and %23)";
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl RedisAddress {
    /// Reads a URL of Redis. The error never shows the password.
    pub fn parse(text: &str) -> Result<RedisAddress, String> {
        match text.split_once(':') {
            Some(("redis+unix", _)) => RedisAddress::unix(text),
            Some(("redis" | "rediss", _)) => RedisAddress::one(text),
            _ => RedisAddress::of_several(text),
        }
    }

    /// Reads `redis+unix://PATH[?db=N]`, the path of the server's socket.
    fn unix(text: &str) -> Result<RedisAddress, String> {
        const FORM: &str = "the URL of a socket looks like redis+unix:///run/redis/redis.sock[?db=N]";
        let path = text.strip_prefix("redis+unix://").unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, "db=0"));
        let number = query.strip_prefix("db=").filter(|_| path.starts_with('/')).ok_or(FORM)?;
        let database = database(number, "db=", FORM)?;
        let endpoint = Endpoint::Unix(PathBuf::from(percent_decode(path)?));
        Ok(RedisAddress {
            servers: ServerAddress::One(endpoint),
            login: Login { database, ..Login::default() },
        })
    }

    /// Reads `redis://[user[:password]@]host[:port][/db]`, and `rediss://` for TLS.
    fn one(text: &str) -> Result<RedisAddress, String> {
        let (text, zone) = net::split_zone(text);
        let url = Url::parse(&text).map_err(|error| match error {
            ParseError::InvalidPort => format!("a port is a number up to 65535; {FORM}"),
            _ => FORM.to_owned(),
        })?;
        let host = match url.host() {
            // The url crate reads no addresses in a scheme that it does not know.
            Some(Host::Domain(name)) => percent_decode(name)?,
            Some(Host::Ipv4(ip)) => ip.to_string(),
            Some(Host::Ipv6(ip)) => format!("{ip}{zone}"),
            None => String::new(),
        };
        if host.is_empty() {
            return Err(format!("the host is missing; {FORM}"));
        }
        if host.contains(',') {
            return Err(format!("each server of a quorum has its own --server; {FORM}"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{NO_MEANING}; {FORM}"));
        }
        // Text that is not a number may be a part of a password with a '/' in it.
        let database = database(url.path().trim_matches('/'), "host", FORM)?;
        let port = match url.port() {
            Some(0) => return Err(format!("0 is not a port; {FORM}")),
            port => port.unwrap_or(PORT),
        };
        let login = login(url.username(), url.password(), url.scheme() == "rediss")?;
        let servers = ServerAddress::One(Endpoint::Tcp { host, port });
        Ok(RedisAddress { servers, login: Login { database, ..login } })
    }

    /// Reads `redis+sentinel://[user[:password]@]host[:port],...[/master][/db]`, which names Sentinels, and
    /// `redis+cluster://[user[:password]@]host[:port],...`, and `rediss+...` for TLS.
    fn of_several(text: &str) -> Result<RedisAddress, String> {
        const FORM: &str = "such a URL looks like redis+sentinel://host[:port],host[:port]/master[/db] or \
                            redis+cluster://host[:port],host[:port]";
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        if rest.contains(['?', '#']) {
            return Err(format!("{NO_MEANING}; {FORM}"));
        }
        let is_sentinel = scheme.ends_with("+sentinel");
        // Everything up to the last @ before the path is the login.
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (userinfo, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let mut endpoints = Vec::new();
        for host in hosts.split(',') {
            // A password that is not well written may be in it, so it is not shown.
            let one = RedisAddress::one(&format!("redis://{host}"))
                .map_err(|_| format!("one of the hosts cannot be read; {FORM}"))?;
            let ServerAddress::One(Endpoint::Tcp { host: name, port }) = one.servers else {
                return Err(FORM.into());
            };
            let is_given = !is_sentinel || host.ends_with(&format!(":{port}"));
            endpoints.push(Endpoint::Tcp { host: name, port: if is_given { port } else { SENTINEL_PORT } });
        }
        let (user, password) =
            userinfo.split_once(':').map_or((userinfo, None), |(user, word)| (user, Some(word)));
        let login = login(user, password, scheme.starts_with("rediss"))?;
        let path = path.trim_end_matches('/');
        let (first, second) = path.split_once('/').unwrap_or((path, ""));
        if !is_sentinel {
            return match first {
                "" | "0" if second.is_empty() => {
                    Ok(RedisAddress { servers: ServerAddress::Cluster(endpoints), login })
                }
                _ => Err(format!("a Redis Cluster has one database only; {FORM}")),
            };
        }
        let master = percent_decode(first)?;
        if master.is_empty() {
            return Err(format!("the name of the master is missing; {FORM}"));
        }
        let login = Login { database: database(second, "master", FORM)?, ..login };
        Ok(RedisAddress { servers: ServerAddress::Sentinel { sentinels: endpoints, master }, login })
    }

    /// The address is that of one server, whatever happens.
    pub fn is_one_server(&self) -> bool {
        matches!(self.servers, ServerAddress::One(_))
    }

    pub fn is_remote(&self) -> bool {
        !matches!(self.servers, ServerAddress::One(Endpoint::Unix(_)))
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(&self, credentials: &Credentials) -> RedisAddress {
        let RedisAddress { servers, mut login } = self.clone();
        if login.password.is_none() {
            login.password.clone_from(&credentials.password);
            login.user = login.user.or_else(|| credentials.user.clone());
        }
        login.sentinel_password.clone_from(&credentials.sentinel_password);
        login.tls_files = Box::new(credentials.tls_files.clone());
        RedisAddress { servers, login }
    }
}

fn login(user: &str, password: Option<&str>, tls: bool) -> Result<Login, String> {
    let user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
    Ok(Login {
        user,
        password: password.map(percent_decode).transpose()?.map(Password::Fixed),
        tls,
        ..Login::default()
    })
}

fn database(number: &str, behind: &str, form: &str) -> Result<u32, String> {
    match number {
        "" => Ok(0),
        _ => number
            .parse()
            .map_err(|_| format!("the text behind the {behind} is not a database number; {form}")),
    }
}

fn percent_decode(text: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| format!("it is not UTF-8; {FORM}"))
}

impl fmt::Display for RedisAddress {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |endpoints: &[Endpoint]| endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",");
        let tls = if self.login.tls { "s" } else { "" };
        match &self.servers {
            ServerAddress::One(Endpoint::Unix(path)) => write!(f, "redis+unix://{}", path.display())?,
            ServerAddress::One(endpoint) => write!(f, "redis{tls}://{endpoint}")?,
            ServerAddress::Sentinel { sentinels, master } => {
                write!(f, "redis{tls}+sentinel://{}/{master}", list(sentinels))?;
            }
            ServerAddress::Cluster(seeds) => write!(f, "redis{tls}+cluster://{}", list(seeds))?,
        }
        match self.login.database {
            0 => Ok(()),
            number if !self.is_remote() => write!(f, "?db={number}"),
            number => write!(f, "/{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_the_password() {
        for (text, shown) in [
            ("redis://h", "redis://h:6379"),
            ("redis://u:p%40w@h:7000/3", "redis://h:7000/3"),
            ("redis://:pw@127.0.0.1", "redis://127.0.0.1:6379"),
            ("redis://[::1]:1", "redis://[::1]:1"),
            ("rediss://h/2", "rediss://h:6379/2"),
            ("redis+sentinel://u:canary@a,b:1/mine/2", "redis+sentinel://a:26379,b:1/mine/2"),
            ("redis+cluster://:canary@a,[::1]:7000", "redis+cluster://a:6379,[::1]:7000"),
            ("rediss+cluster://a", "rediss+cluster://a:6379"),
            ("redis+unix:///run/a%20b.sock?db=2", "redis+unix:///run/a b.sock?db=2"),
            ("redis://:pw@[fe80::1%25eth0]:1/2", "redis://[fe80::1%eth0]:1/2"),
            ("redis+cluster://a,[fe80::1%eth0]", "redis+cluster://a:6379,[fe80::1%eth0]:6379"),
        ] {
            assert_eq!(RedisAddress::parse(text).map(|address| address.to_string()), Ok(shown.to_owned()));
        }
        let address = RedisAddress::parse("redis://u:p%40w@h")
            .map(|address| (address.login.user, address.login.password));
        assert_eq!(address, Ok((Some("u".to_owned()), Some(Password::Fixed("p@w".to_owned())))));
        for text in [
            "redis://",
            "redis://h:99999",
            "redis://h:0",
            "redis://h/x",
            "redis:h",
            "redis://h?db=1",
            "redis://:canary@h:x",
            "redis://u:12/canary@h/0",
            "redis://[canary%25eth0]:1",
        ] {
            let error = RedisAddress::parse(text).err().unwrap_or_default();
            assert!(error.contains("redis://[user") && !error.contains("canary"), "{text}");
        }
        for text in [
            "redis+sentinel://a",
            "redis+sentinel://:canary@a/mine/x",
            "redis+sentinel://a,,b/mine",
            "redis+cluster://:canary@",
            "redis+cluster://a/1",
            "redis+sentinel://:can/ary@h/mine",
            "redis+sentinel://:canary,h:1/mine",
            "redis+sentinel://h/mine?x=canary",
        ] {
            let error = RedisAddress::parse(text).err();
            assert!(error.is_some_and(|error| !error.contains("canary")), "{text}");
        }
    }
}
