//! What `acquire` hands out: owner token, keys and fencing tokens.

use serde_json::{Value, json};

use super::ShellSyntax;
use crate::lock::{Lease, OwnerToken, Ttl};

/// The variables in which a job finds its locks, with a line for each lock.
pub const KEY: &str = "REDLOCK_KEY";
pub const TOKEN: &str = "REDLOCK_TOKEN";
pub const FENCE: &str = "REDLOCK_FENCE";

/// Locks that were acquired together.
pub struct AcquiredLocks<'a> {
    pub token: &'a OwnerToken,
    pub ttl: Ttl,
    pub leases: &'a [Lease],
}

impl AcquiredLocks<'_> {
    pub fn keys(&self) -> String {
        lines(self.leases.iter().map(|lease| &lease.request.key))
    }

    pub fn fences(&self) -> String {
        lines(self.leases.iter().map(|lease| lease.fence))
    }

    pub fn token_line(&self) -> String {
        self.token.expose().to_owned() + "\n"
    }

    /// A line that a shell evaluates.
    pub fn exports(&self, shell: ShellSyntax) -> String {
        shell.export(&[(KEY, &self.keys()), (TOKEN, self.token.expose()), (FENCE, &self.fences())])
    }

    /// `locks` has the key and the fencing token of each lock; those of a single lock stand at the top as well.
    pub fn json(&self) -> String {
        let locks: Vec<Value> = self
            .leases
            .iter()
            .map(|lease| json!({ "key": lease.request.key.as_str(), "fence": lease.fence.0 }))
            .collect();
        let mut all = json!({ "token": self.token.expose(), "ttl_ms": self.ttl.as_millis(), "locks": locks });
        if let [lock] = &locks[..] {
            all["key"] = lock["key"].clone();
            all["fence"] = lock["fence"].clone();
        }
        all.to_string() + "\n"
    }
}

/// One value a line: a key has no line feed in it.
pub fn lines(values: impl Iterator<Item = impl ToString>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join("\n")
}
