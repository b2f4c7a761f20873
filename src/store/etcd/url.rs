//! The URLs of etcd.

use std::fmt;

use super::layout::KeyLayout;
use crate::store::credentials::Credentials;
#[cfg(test)]
use crate::store::credentials::Password;
use crate::store::server_list::ServerList;

/// Where etcd is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    pub members: ServerList,
    pub layout: KeyLayout,
}

const FORM: &str = "an etcd URL looks like etcd://[user:password@]host[:port],host[:port][/prefix]";
const PORT: u16 = 2379;
const LONGEST_PREFIX: usize = 512;

impl EtcdAddress {
    /// Reads `etcd://[user:password@]host[:port],...[/prefix]`, and `etcds://` for TLS. The error never shows the
    /// password.
    pub fn parse(text: &str) -> Result<EtcdAddress, String> {
        let (members, mut prefix) = ServerList::parse(text, "etcds", PORT, FORM)?;
        if prefix.len() > LONGEST_PREFIX || prefix.chars().any(char::is_control) {
            return Err(format!("the prefix is too long, or has control characters; {FORM}"));
        }
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Ok(EtcdAddress { members, layout: KeyLayout { prefix } })
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(self, credentials: &Credentials) -> EtcdAddress {
        EtcdAddress { members: self.members.with(credentials), ..self }
    }
}

impl fmt::Display for EtcdAddress {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.members.is_encrypted { "s" } else { "" };
        write!(f, "etcd{tls}://{}", self.members)?;
        match self.layout.prefix.trim_end_matches('/') {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
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
    let login =
        address.map(|EtcdAddress { members, layout }| (members.user, members.password, layout.prefix));
    assert_eq!(login, Ok((Some("u".to_owned()), Some(Password::Fixed("p@w".to_owned())), "x/".to_owned())));
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
