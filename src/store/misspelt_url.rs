//! The server URL that a text was meant to be.

use std::fmt;

/// Other names of our schemes.
const OTHER_SCHEMES: [(&str, &[&str]); 8] = [
    ("redis", &["http", "tcp", "redis+tcp"]),
    ("rediss", &["https", "tls", "ssl", "redis+tls", "redis+ssl"]),
    ("etcd", &["etcd3", "etcdv3"]),
    ("etcds", &["etcd+tls", "etcd+ssl"]),
    ("zk", &["zookeeper"]),
    ("zks", &["zookeepers", "zk+tls", "zk+ssl"]),
    ("memcached", &["memcache"]),
    ("postgres", &["pg", "pgsql", "psql"]),
];

/// The reason why redlock has no store for a server whose URLs begin so, and what to use instead.
pub fn unsupported(scheme: &str) -> Option<&'static str> {
    let scheme = scheme.to_ascii_lowercase();
    matches!(scheme.as_str(), "mysql" | "mysqls" | "mysqlx" | "mariadb").then_some(
        "redlock keeps no locks in MySQL or MariaDB: they cannot wake a waiter, which would have to poll; use postgres://, redis://, or local: on one host",
    )
}

/// Other names for a file or a socket on this host.
const OTHER_PATHS: [(&str, &str); 4] =
    [("file", "local:"), ("sqlite", "local:"), ("unix", "redis+unix://"), ("socket", "redis+unix://")];

/// A form that may be shown, without a login.
#[derive(Debug, PartialEq, Eq)]
pub enum Intended {
    Url(String),
    /// Each with an option of its own.
    Several(Vec<String>),
}

impl Intended {
    pub fn of(text: &str) -> Option<Intended> {
        if matches!(text, "local" | "local:/" | "local://") {
            return Some(Intended::Url("local:".to_owned()));
        }
        if is_path(text) {
            return Some(Intended::Url(format!("local:{text}")));
        }
        if let Some((name, path)) = text.split_once(':')
            && let Some((_, ours)) = OTHER_PATHS.iter().find(|(other, _)| *other == name)
        {
            let path = path.strip_prefix("//").unwrap_or(path);
            return is_path(path).then(|| Intended::Url(format!("{ours}{path}")));
        }
        let (scheme, hosts) = match text.split_once("://") {
            Some((scheme, hosts)) => (Some(meant_scheme(scheme)?), hosts),
            None => match text.split_once(':').map(|(scheme, rest)| (meant_scheme(scheme), rest)) {
                // `redis:6379` is a host and its port.
                Some((Some(scheme), rest)) if !rest.bytes().all(|byte| byte.is_ascii_digit()) => {
                    (Some(scheme), rest)
                }
                _ => (None, text),
            },
        };
        // Each of them may be a URL.
        let host =
            |text| TypedHost::parse(str::split_once(text, "://").map_or(text, |(_, host)| host).trim());
        let hosts: Vec<TypedHost> = hosts.split(',').map(host).collect::<Option<_>>()?;
        let scheme = hosts.first()?.scheme(scheme);
        let urls = hosts.iter().map(|host| format!("{scheme}://{}", host.text));
        match &hosts[..] {
            [_] => urls.map(Intended::Url).next().filter(|meant| *meant != Intended::Url(text.to_owned())),
            // Servers of one cluster.
            [_, others @ ..] if matches!(scheme, "etcd" | "etcds" | "zk" | "zks") => {
                let others = others.iter().map(|host| format!(",{}", host.text));
                Some(Intended::Url(urls.take(1).chain(others).collect()))
            }
            _ => Some(Intended::Several(urls.collect())),
        }
    }
}

fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_plain && (text.starts_with(['/', '.']) || text.ends_with(".db"))
}

/// The scheme of ours, whose name may be misspelt; `None` for something else.
fn meant_scheme(text: &str) -> Option<&'static str> {
    let text = &*text.to_lowercase();
    let is_exact = |(ours, others): &&(&str, &[&str])| *ours == text || others.contains(&text);
    let is_near = |(ours, _): &&(&str, &[&str])| text.len() > 3 && strsim::osa_distance(ours, text) == 1;
    let all = || OTHER_SCHEMES.iter();
    all().find(is_exact).or_else(|| all().find(is_near)).map(|(ours, _)| *ours)
}

/// `host`, `host:port` or `host:port/db`.
struct TypedHost<'a> {
    text: &'a str,
    port: &'a str,
}

impl TypedHost<'_> {
    fn parse(text: &str) -> Option<TypedHost<'_>> {
        let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        let (place, database) = text.split_once('/').unwrap_or((text, "0"));
        // An address of IPv6 stands in brackets.
        let colon = place.rfind(':').filter(|colon| place.find(']').is_none_or(|end| end < *colon));
        let (host, port) = colon.map_or((place, "6379"), |colon| (&place[..colon], &place[colon + 1..]));
        let is_name = host.starts_with(|c: char| c.is_ascii_alphanumeric())
            && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
        let is_address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(|host| {
            host.contains(':') && host.chars().all(|c| c.is_ascii_hexdigit() || c == ':')
        });
        ((is_name || is_address) && is_number(port) && is_number(database))
            .then_some(TypedHost { text, port })
    }

    /// etcd's own programs write http://host:2379.
    fn scheme(&self, meant: Option<&'static str>) -> &'static str {
        match (meant, self.port) {
            (None | Some("redis"), "2379") => "etcd",
            (Some("rediss"), "2379") => "etcds",
            (None | Some("redis"), "2181") => "zk",
            (None | Some("redis"), "11211") => "memcached",
            (meant, _) => meant.unwrap_or("redis"),
        }
    }
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
        ("[::1]:6379", "did you mean redis://[::1]:6379?"),
        ("[::1]", "did you mean redis://[::1]?"),
        ("http://h:1/2", "did you mean redis://h:1/2?"),
        ("redos://h", "did you mean redis://h?"),
        ("tls://h:6380", "did you mean rediss://h:6380?"),
        ("redis:h", "did you mean redis://h?"),
        ("a,b:1", "did you mean --server redis://a --server redis://b:1?"),
        ("redsi://h:1", "did you mean redis://h:1?"),
        ("redis:6379", "did you mean redis://redis:6379?"),
        ("etcd:h", "did you mean etcd://h?"),
        ("local://", "did you mean local:?"),
        ("redis://a:1,redis://b:2", "did you mean --server redis://a:1 --server redis://b:2?"),
        ("redis://a,b", "did you mean --server redis://a --server redis://b?"),
        ("h:2379", "did you mean etcd://h:2379?"),
        ("https://a:2379,b:2379", "did you mean etcds://a:2379,b:2379?"),
        ("zookeeper://a,b:2181", "did you mean zk://a,b:2181?"),
        ("h:2181", "did you mean zk://h:2181?"),
        ("memcache://h", "did you mean memcached://h?"),
        ("h:11211", "did you mean memcached://h:11211?"),
        ("local", "did you mean local:?"),
        ("/var/lib/x.db", "did you mean local:/var/lib/x.db?"),
        ("file:///var/lib/x.db", "did you mean local:/var/lib/x.db?"),
        ("unix:/run/redis.sock", "did you mean redis+unix:///run/redis.sock?"),
    ] {
        assert_eq!(Intended::of(text).map(|meant| meant.to_string()), Some(meant.to_owned()), "{text}");
    }
    for text in [
        "u:canary@h",
        "redos://:canary@h",
        "redos://:canary,h:1",
        "h:canary",
        "h/canary",
        "redis://h/x",
        "redis://h/17",
        "consul://h:8500",
        "postgres://h",
        "file:canary",
        "[canary]:1",
        "",
    ] {
        assert_eq!(Intended::of(text), None, "{text}");
    }
}
