//! The output of `acquire`: owner token, keys and fencing tokens.

use serde_json::{Value, json};

use super::ShellSyntax;
use crate::lock::{Lease, OwnerToken, Ttl};

/// The variables in which a job finds its locks, with a line for each lock.
pub const KEY: &str = "REDLOCK_KEY";
pub const TOKEN: &str = "REDLOCK_TOKEN";
pub const FENCE: &str = "REDLOCK_FENCE";
pub const PERMIT: &str = "REDLOCK_PERMIT";

/// Locks that were acquired together.
pub struct AcquiredLocks<'a> {
    pub token: &'a OwnerToken,
    pub ttl: Ttl,
    pub leases: &'a [Lease],
    /// The variables about the member of a pool.
    pub pool: Vec<(String, String)>,
}

impl AcquiredLocks<'_> {
    pub fn keys(&self) -> String {
        lines(self.leases.iter().map(|lease| &lease.request.key))
    }

    pub fn fences(&self) -> String {
        lines(self.leases.iter().map(|lease| lease.fence))
    }

    /// The permits of a semaphore, where the store gives numbers.
    pub fn permits(&self) -> Option<String> {
        permits(self.leases)
    }

    /// The variables that say which locks these are.
    pub fn variables(&self) -> Vec<(&str, String)> {
        let mut variables =
            vec![(KEY, self.keys()), (TOKEN, self.token.expose().to_owned()), (FENCE, self.fences())];
        variables.extend(self.permits().map(|permits| (PERMIT, permits)));
        variables.extend(self.pool.iter().map(|(name, value)| (name.as_str(), value.clone())));
        variables
    }

    pub fn token_line(&self) -> String {
        self.token.expose().to_owned() + "\n"
    }

    /// A line that a shell evaluates.
    pub fn exports(&self, shell: ShellSyntax) -> String {
        let variables = self.variables();
        shell.export(&variables.iter().map(|(name, value)| (*name, &value[..])).collect::<Vec<_>>())
    }

    /// `locks` has the key and the fencing token of each lock, and its permits; those of a single lock stand at the top as well.
    pub fn json(&self) -> String {
        let locks: Vec<Value> = self
            .leases
            .iter()
            .map(|lease| {
                let mut lock = json!({ "key": lease.request.key.as_str(), "fence": lease.fence.0 });
                let numbers = lease.permits().numbers();
                if let Some(lowest) = numbers.first() {
                    (lock["permit"], lock["permits"]) = ((*lowest).into(), numbers.into());
                }
                lock
            })
            .collect();
        let mut all = json!({ "token": self.token.expose(), "ttl_ms": self.ttl.as_millis(), "locks": locks });
        if let [lock] = &locks[..] {
            let fields = ["key", "fence", "permit", "permits"];
            for (name, value) in fields.into_iter().filter_map(|name| Some((name, lock.get(name)?))) {
                all[name] = value.clone();
            }
        }
        if !self.pool.is_empty() {
            all["pool"] =
                self.pool.iter().map(|(name, value)| (name.clone(), Value::from(&**value))).collect();
        }
        all.to_string() + "\n"
    }
}

/// The permits of these leases, a line for each lease; `None` where one has no number.
pub fn permits(leases: &[Lease]) -> Option<String> {
    let have_numbers = !leases.is_empty() && leases.iter().all(|lease| !lease.permits().is_empty());
    have_numbers.then(|| lines(leases.iter().map(Lease::permits)))
}

/// One value a line: a key has no line feed in it.
pub fn lines(values: impl Iterator<Item = impl ToString>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join("\n")
}
