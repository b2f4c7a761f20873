//! What a text that is no server URL was meant to be.

use std::fmt;

const SCHEMES: [&str; 6] =
    ["redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster", "rediss+cluster"];

/// A form that may be shown: there is no login in it.
#[derive(Debug, PartialEq, Eq)]
pub enum Intended {
    Url(String),
    /// Each with an option of its own.
    Several(Vec<String>),
}

impl Intended {
    pub fn of(text: &str) -> Option<Intended> {
        let hosts = match text.split_once("://") {
            Some((scheme, hosts)) if !SCHEMES.contains(&scheme) && !hosts.starts_with(':') => hosts,
            Some(_) => return None,
            None => text.strip_prefix("redis:").unwrap_or(text),
        };
        if text == "local" {
            return Some(Intended::Url("local:".to_owned()));
        }
        if is_path(text) {
            return Some(Intended::Url(format!("local:{text}")));
        }
        let urls: Option<Vec<String>> = hosts.split(',').map(|host| url(host.trim())).collect();
        match &urls?[..] {
            [one] => Some(Intended::Url(one.clone())),
            several => Some(Intended::Several(several.to_vec())),
        }
    }
}

fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_plain && (text.starts_with(['/', '.']) || text.ends_with(".db"))
}

/// Of `host`, `host:port` or `host:port/db`.
fn url(text: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let (place, database) = text.split_once('/').unwrap_or((text, "0"));
    let (host, port) = place.split_once(':').unwrap_or((place, "6379"));
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    (is_host && is_number(port) && is_number(database)).then(|| format!("redis://{text}"))
}

impl fmt::Display for Intended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Intended::Url(url) => write!(f, "did you mean {url}?"),
            Intended::Several(urls) => write!(f, "did you mean --server {}?", urls.join(" --server ")),
        }
    }
}

#[test]
fn a_host_is_recognised_and_a_login_is_not_shown() {
    for (text, meant) in [
        ("localhost", "did you mean redis://localhost?"),
        ("127.0.0.1:6379", "did you mean redis://127.0.0.1:6379?"),
        ("http://h:1/2", "did you mean redis://h:1/2?"),
        ("redos://h", "did you mean redis://h?"),
        ("redis:h", "did you mean redis://h?"),
        ("a,b:1", "did you mean --server redis://a --server redis://b:1?"),
        ("local", "did you mean local:?"),
        ("/var/lib/x.db", "did you mean local:/var/lib/x.db?"),
    ] {
        assert_eq!(Intended::of(text).map(|meant| meant.to_string()), Some(meant.to_owned()), "{text}");
    }
    for text in
        ["u:canary@h", "redos://:canary@h", "redos://:canary,h:1", "h:canary", "h/canary", "redis://h/x", ""]
    {
        assert_eq!(Intended::of(text), None, "{text}");
    }
}
