//! The facts about a holder or a waiter that others see.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Permits, Priority};
use crate::sanitize::sanitize;

/// A holder of a lock or a waiter, as it described itself.
///
/// Written by other people, on other hosts: read it with [`Metadata::from_untrusted`] only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub host: String,
    /// The pid of redlock, of the keeper, or of the process that called `acquire`; in the pid namespace of that host.
    pub pid: u32,
    /// The process for which the lock is held, when that is not the one that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_pid: Option<u32>,
    pub user: String,
    /// Nobody keeps it: `acquire` has ended.
    #[serde(skip_serializing_if = "is_false")]
    pub by_hand: bool,
    /// The PID namespace of that pid. Containers may share the name of a host, and not its pids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// The TTL of the lease in milliseconds; 0 when it is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl_ms: u64,
    /// The purpose: `--label`, or the command.
    pub label: String,
    /// The lock is reserved until then, in milliseconds since the Unix epoch; 0 for one that is not.
    #[serde(skip_serializing_if = "is_zero")]
    pub reserved_until: u64,
    /// Why it is reserved.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The permits of a semaphore that it wants at once: see [`Metadata::weight`].
    #[serde(skip_serializing_if = "is_one_at_most")]
    pub take: u32,
    /// The numbers of the permits that it has, where the store gives numbers.
    #[serde(skip_serializing_if = "Permits::is_empty")]
    pub permits: Permits,
    /// Waiters with this flag that came earlier go home for it.
    #[serde(skip_serializing_if = "is_false")]
    pub supersedes: bool,
    /// The place of a waiter in the queue depends on it.
    #[serde(skip_serializing_if = "Priority::is_default")]
    pub priority: Priority,
    /// The number of the run, which starts only if no higher one has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// When the request began, in milliseconds since the Unix epoch.
    pub since: u64,
}

/// The longest label that is stored, in characters: `status` shows one line for each holder.
const LONGEST_LABEL: usize = 200;

impl Metadata {
    /// The metadata of a request that begins now; the label is made harmless and cut to 200 characters.
    pub fn new(host: String, pid: u32, user: String, label: &str) -> Self {
        Metadata { host, pid, user, label: clean(label), since: unix_millis(), ..Metadata::default() }
    }

    /// The metadata in `text`, made harmless; with broken text, an empty one.
    pub fn from_untrusted(text: &str) -> Self {
        let raw: Metadata = serde_json::from_str(text).unwrap_or_default();
        let [host, user, label, reason] =
            [&raw.host, &raw.user, &raw.label, &raw.reason].map(|text| clean(text));
        Metadata { host, user, label, reason, ..raw }
    }

    /// The metadata of a reservation by a person; the reason is made harmless and cut.
    pub fn reserved(self, until: u64, reason: &str) -> Self {
        Metadata { reserved_until: until, reason: clean(reason), ..self }
    }

    /// The time that the lease lives without renewal, if it is known.
    pub fn ttl(&self) -> Option<Duration> {
        (self.ttl_ms > 0).then(|| Duration::from_millis(self.ttl_ms))
    }

    /// The most permits that one holder takes: each has a number, which the store keeps.
    pub const MOST_PERMITS: u32 = 1000;

    /// The number of permits that it takes of a semaphore.
    pub fn weight(&self) -> u32 {
        self.take.clamp(1, Metadata::MOST_PERMITS)
    }

    /// As it is stored; [`Metadata::from_untrusted`] reads it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_one_at_most(number: &u32) -> bool {
    *number <= 1
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Milliseconds since the Unix epoch, for people to read; never for the safety of a lease.
pub fn unix_millis() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

pub fn clean(text: &str) -> String {
    sanitize(&text.chars().take(LONGEST_LABEL).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_others_is_harmless() {
        let hostile = r#"{"host":"a\u001b[2Jb","pid":1,"user":"x\u202ey","label":"\u0007"}"#;
        let metadata = Metadata::from_untrusted(hostile);
        assert_eq!(
            (metadata.host.as_str(), metadata.user.as_str(), metadata.label.as_str()),
            ("a\u{fffd}[2Jb", "x\u{fffd}y", "\u{fffd}")
        );
        assert_eq!(Metadata::from_untrusted("{broken"), Metadata::default());
        let long = Metadata { label: "x".repeat(10_000), ..Metadata::default() };
        assert_eq!(Metadata::from_untrusted(&long.to_json()).label.len(), LONGEST_LABEL);
    }
}
