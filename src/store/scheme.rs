//! What the URLs of stores begin with.

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

pub const SCHEMES: [Scheme; 12] = [
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
];

impl Scheme {
    /// The one with this name, such as `redis`.
    pub fn named(name: &str) -> Option<&'static Scheme> {
        SCHEMES.iter().find(|scheme| scheme.prefix.split_once(':').is_some_and(|(known, _)| known == name))
    }
}
