//! The URLs of Memcached.

use std::fmt;

use crate::store::net::Endpoint;
use crate::store::server_list::ServerList;

/// Where a Memcached is.
#[derive(Clone, PartialEq, Eq)]
pub struct MemcachedAddress {
    pub server: Endpoint,
}

const FORM: &str = "a Memcached URL looks like memcached://host[:port]";
const PORT: u16 = 11211;

impl MemcachedAddress {
    /// Reads `memcached://host[:port]`. The error never shows a password.
    pub fn parse(text: &str) -> Result<MemcachedAddress, String> {
        let (list, path) = ServerList::parse(text, "", PORT, FORM)?;
        if list.user.is_some() {
            return Err(format!("redlock cannot log in to Memcached; {FORM}"));
        }
        if !path.is_empty() {
            return Err(format!("a Memcached has no path; {FORM}"));
        }
        match <[Endpoint; 1]>::try_from(list.servers) {
            Ok([server]) => Ok(MemcachedAddress { server }),
            Err(_) => Err(format!("a lock is in one Memcached, not in several; {FORM}")),
        }
    }
}

impl fmt::Display for MemcachedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memcached://{}", self.server)
    }
}

#[test]
fn urls_are_read() {
    for (text, shown) in
        [("memcached://h", "memcached://h:11211"), ("memcached://[::1]:1/", "memcached://[::1]:1")]
    {
        assert_eq!(MemcachedAddress::parse(text).map(|address| address.to_string()), Ok(shown.to_owned()));
    }
    for text in ["memcached://", "memcached://a,b", "memcached://u:canary@h", "memcached://h/canary"] {
        let error = MemcachedAddress::parse(text).err();
        let is_good = |error: String| error.contains(FORM) && !error.contains("canary");
        assert!(error.is_some_and(is_good), "{text}");
    }
}
