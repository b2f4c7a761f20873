//! The URLs of `--server`, REDLOCK_SERVER and `server` in a file.

use crate::store::ServerUrl;

/// Whether one of the URLs has a password in it.
pub fn has_password(servers: &[String]) -> bool {
    ServerUrl::parse(&split_urls(servers)).is_ok_and(|url| url.has_password())
}

/// URLs in one variable are separated by spaces. A path may have spaces, too: a URL begins at a word with a scheme.
pub fn split_urls(values: &[String]) -> Vec<&str> {
    let mut urls = Vec::new();
    for value in values {
        let mut begin = 0;
        for (space, _) in value.match_indices(char::is_whitespace) {
            let word = value[space..].trim_start().split(char::is_whitespace).next().unwrap_or_default();
            if word.contains("://") || word == "local:" {
                urls.push(value[begin..space].trim());
                begin = space;
            }
        }
        urls.push(value[begin..].trim());
    }
    urls.retain(|url| !url.is_empty());
    urls
}

#[test]
fn urls_of_one_variable_are_split_at_schemes() {
    let split = |text: &str| split_urls(&[text.to_owned()]).join("|");
    assert_eq!(split("redis://a redis://b:1  local:"), "redis://a|redis://b:1|local:");
    assert_eq!(split("local:/with space/x.db"), "local:/with space/x.db");
    assert_eq!(split("  "), "");
}
