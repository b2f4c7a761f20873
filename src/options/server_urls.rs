//! The URLs of servers, several of which may stand in one value.

use std::ffi::OsStr;

use crate::store::{SCHEMES, ServerUrl};

/// Says that a value is empty: a script's unset variable must not lead to another store.
pub const EMPTY: &str = "it is empty; name a store, or leave it out";

/// URLs in one variable are separated by spaces. A path may have spaces, too: a URL begins at a word with a scheme.
pub fn split_urls<T: AsRef<str>>(values: &[T]) -> Vec<&str> {
    let mut urls = Vec::new();
    for value in values.iter().map(AsRef::as_ref) {
        let mut begin = 0;
        for (space, _) in value.match_indices(char::is_whitespace) {
            let word = value[space..].split_whitespace().next().unwrap_or_default();
            if word.contains("://") || SCHEMES.iter().any(|scheme| word == scheme.prefix) {
                urls.push(value[begin..space].trim());
                begin = space;
            }
        }
        urls.push(value[begin..].trim());
    }
    urls.retain(|url| !url.is_empty());
    urls
}

pub fn has_password(servers: &[String]) -> bool {
    ServerUrl::parse(&split_urls(servers)).is_ok_and(|url| url.has_password())
}

/// True if it has the form of a URL with a user, or a password, before the host.
pub fn has_login(word: &OsStr) -> bool {
    word.to_string_lossy().split_once("://").is_some_and(|(_, rest)| rest.contains('@'))
}

/// URLs without what may be a password.
pub fn without_login(text: &str) -> String {
    if !has_login(text.as_ref()) {
        return text.to_owned();
    }
    let hide = |url: &&str| match url
        .split_once("://")
        .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)))
    {
        Some((scheme, (_, host))) => format!("{scheme}://…@{host}"),
        None => (*url).to_owned(),
    };
    split_urls(&[text]).iter().map(hide).collect::<Vec<_>>().join(" ")
}

#[test]
fn urls_of_one_variable_are_split_at_schemes() {
    let split = |text: &str| split_urls(&[text]).join("|");
    assert_eq!(split("redis://a redis://b:1  local:"), "redis://a|redis://b:1|local:");
    assert_eq!(split("local:/with space/x.db"), "local:/with space/x.db");
    assert_eq!(split("  "), "");
}

#[test]
fn a_password_is_not_shown() {
    for (text, shown) in [
        ("redis://:p@ss@a:1/2 rediss://b", "redis://…@a:1/2 rediss://b"),
        ("redis://u:p q@a rediss://:r s@b", "redis://…@a rediss://…@b"),
        ("mail  a@b local:/a@b", "mail  a@b local:/a@b"),
    ] {
        assert_eq!(without_login(text), shown);
    }
}
