use std::fmt;
use std::path::PathBuf;

use url::{Host, Url};

/// Where a Redis server is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub endpoint: Endpoint,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

const FORM: &str = "a Redis URL looks like redis://[user[:password]@]host[:port][/db]";

impl Address {
    /// Reads `redis+unix://PATH`, the path of the server's socket.
    pub fn unix(text: &str) -> Result<Address, String> {
        let path = text.strip_prefix("redis+unix://").unwrap_or_default();
        if !path.starts_with('/') {
            return Err("the URL of a socket looks like redis+unix:///run/redis/redis.sock".to_owned());
        }
        let endpoint = Endpoint::Unix(PathBuf::from(percent_decode(path)?));
        Ok(Address { endpoint, user: None, password: None, database: 0 })
    }

    /// Reads `redis://[user[:password]@]host[:port][/db]`. The error never shows the password.
    pub fn parse(text: &str) -> Result<Address, String> {
        let url = Url::parse(text).map_err(|error| format!("{error}; {FORM}"))?;
        let host = match url.host() {
            // The url crate reads no addresses in a scheme that it does not know.
            Some(Host::Domain(name)) => percent_decode(name)?,
            Some(Host::Ipv4(ip)) => ip.to_string(),
            Some(Host::Ipv6(ip)) => ip.to_string(),
            None => String::new(),
        };
        if host.is_empty() {
            return Err(format!("there is no host; {FORM}"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("'?' and '#' have no meaning (write them as %3F and %23); {FORM}"));
        }
        let database = match url.path().trim_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| format!("'{number}' is no database number; {FORM}"))?,
        };
        let port = match url.port() {
            Some(0) => return Err(format!("0 is no port; {FORM}")),
            port => port.unwrap_or(6379),
        };
        let user = Some(percent_decode(url.username())?).filter(|user| !user.is_empty());
        let password = url.password().map(percent_decode).transpose()?;
        Ok(Address { endpoint: Endpoint::Tcp { host, port }, user, password, database })
    }
}

fn percent_decode(text: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| format!("it is not UTF-8; {FORM}"))
}

impl fmt::Display for Address {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "redis://[{host}]:{port}")?,
            Endpoint::Tcp { host, port } => write!(f, "redis://{host}:{port}")?,
            Endpoint::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
        }
        match self.database {
            0 => Ok(()),
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
        ] {
            assert_eq!(Address::parse(text).map(|address| address.to_string()), Ok(shown.to_owned()));
        }
        let address = Address::parse("redis://u:p%40w@h").map(|address| (address.user, address.password));
        assert_eq!(address, Ok((Some("u".to_owned()), Some("p@w".to_owned()))));
        for text in [
            "redis://",
            "redis://h:99999",
            "redis://h:0",
            "redis://h/x",
            "redis:h",
            "redis://h?db=1",
            "redis://:canary@h:x",
        ] {
            let error = Address::parse(text).err();
            assert!(
                error.is_some_and(|error| error.contains("redis://[user") && !error.contains("canary")),
                "{text}"
            );
        }
    }
}
