//! The schemes of the URLs of stores.

/// A beginning of URLs, and the store that they lead to.
pub struct Scheme {
    /// `redis://`; of the one store without a host, `local:`.
    pub prefix: &'static str,
    /// The cargo feature with that store.
    pub feature: &'static str,
    /// The feature is in this build.
    pub is_in: bool,
}

const fn scheme(prefix: &'static str, feature: &'static str, is_in: bool) -> Scheme {
    Scheme { prefix, feature, is_in }
}

pub const SCHEMES: [Scheme; 15] = [
    scheme("local:", "local", cfg!(feature = "local")),
    scheme("redis://", "redis", cfg!(feature = "redis")),
    scheme("rediss://", "redis", cfg!(feature = "redis")),
    scheme("redis+unix://", "redis", cfg!(feature = "redis")),
    scheme("redis+sentinel://", "redis", cfg!(feature = "redis")),
    scheme("rediss+sentinel://", "redis", cfg!(feature = "redis")),
    scheme("redis+cluster://", "redis", cfg!(feature = "redis")),
    scheme("rediss+cluster://", "redis", cfg!(feature = "redis")),
    scheme("etcd://", "etcd", cfg!(feature = "etcd")),
    scheme("etcds://", "etcd", cfg!(feature = "etcd")),
    scheme("zk://", "zookeeper", cfg!(feature = "zookeeper")),
    scheme("zks://", "zookeeper", cfg!(feature = "zookeeper")),
    scheme("memcached://", "memcached", cfg!(feature = "memcached")),
    scheme("postgres://", "postgres", cfg!(feature = "postgres")),
    scheme("postgresql://", "postgres", cfg!(feature = "postgres")),
];

/// A URL with our name of its scheme: those of Valkey, which speaks Redis' protocol, and upper case mean the same.
pub fn canonical(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else { return url.to_owned() };
    let scheme = scheme.to_ascii_lowercase();
    let ours = scheme.strip_prefix("valkey").map(|kind| match kind.strip_prefix('s') {
        Some(kind) => format!("rediss{kind}"),
        None => format!("redis{kind}"),
    });
    let known = [ours.unwrap_or_default(), scheme].into_iter().find(|name| Scheme::named(name).is_some());
    known.map_or_else(|| url.to_owned(), |name| format!("{name}:{rest}"))
}

impl Scheme {
    /// The one with this name, such as `redis`.
    pub fn named(name: &str) -> Option<&'static Scheme> {
        SCHEMES.iter().find(|scheme| scheme.prefix.split_once(':').is_some_and(|(known, _)| known == name))
    }
}

#[test]
fn other_names_of_a_scheme() {
    for (text, ours) in [
        ("valkey://h", "redis://h"),
        ("valkeys+sentinel://h/X", "rediss+sentinel://h/X"),
        ("Redis://H", "redis://H"),
        ("LOCAL:/A", "local:/A"),
        ("valkeyx://h", "valkeyx://h"),
        ("h:6379", "h:6379"),
    ] {
        assert_eq!(canonical(text), ours);
    }
}
