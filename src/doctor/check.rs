//! What `doctor` looks at.

use serde::{Serialize, Serializer};

macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident = $name:literal,)*) => {
        /// One thing that is looked at. Its name is in the table and in JSON, and does not change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Check { $($(#[$doc])* $check,)* }

        impl Check {
            /// All of them, in the order of their names.
            #[cfg(test)]
            pub const ALL: &[Check] = &[$(Check::$check,)*];

            pub fn name(self) -> &'static str {
                match self { $(Check::$check => $name,)* }
            }
        }
    };
}

checks! {
    /// The server's clock against ours.
    Clock = "clock",
    /// The clocks of a quorum against one another.
    Clocks = "clocks",
    Cluster = "cluster",
    /// The file system of the file.
    Disk = "disk",
    /// No server of a quorum is named twice.
    Distinct = "distinct",
    Encryption = "encryption",
    Eviction = "eviction",
    /// The life of a lock: see [`Trial`](super::Trial).
    Locking = "locking",
    Login = "login",
    /// Enough servers of a quorum can be reached.
    Majority = "majority",
    /// The primary that Sentinels name.
    Master = "master",
    Permissions = "permissions",
    Persistence = "persistence",
    Reachable = "reachable",
    Replicas = "replicas",
    Role = "role",
    Sentinels = "sentinels",
    Sharing = "sharing",
    /// The number of servers of a quorum.
    Size = "size",
    /// The slots of a cluster.
    Slots = "slots",
    Space = "space",
    Ttl = "ttl",
    /// How long the server runs without having restarted.
    Uptime = "uptime",
    Version = "version",
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[test]
fn names_are_words_that_are_told_apart() {
    assert!(Check::ALL.is_sorted_by(|one, next| one.name() < next.name()));
    assert!(Check::ALL.iter().all(|check| check.name().bytes().all(|byte| byte.is_ascii_lowercase())));
}
