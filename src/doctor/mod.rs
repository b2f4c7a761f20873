//! The findings of `doctor` about a store.

mod trial;
mod ttl;

use std::fmt::Debug;

use serde::Serialize;

pub use self::trial::{Trial, Trouble, judge};
pub use self::ttl::{Requirements, millis};

/// One thing that is looked at. Its name is in the table and in JSON, and does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// The server's clock against ours.
    Clock,
    /// The clocks of a quorum against one another.
    Clocks,
    Cluster,
    /// The file system of the file.
    Disk,
    /// No server of a quorum is named twice.
    Distinct,
    Encryption,
    Eviction,
    /// The life of a lock: see [`Trial`].
    Locking,
    Login,
    /// Enough servers of a quorum can be reached.
    Majority,
    /// The primary that Sentinels name.
    Master,
    Permissions,
    Persistence,
    Reachable,
    Replicas,
    Role,
    Sentinels,
    /// The timeouts that a server grants.
    Sessions,
    Sharing,
    /// The number of servers of a quorum.
    Size,
    Slots,
    Space,
    Ttl,
    /// The time since the server started.
    Uptime,
    Version,
}

/// The severity, from the best to the worst; `bad` alone changes the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// It could not be seen.
    Unknown,
    Warning,
    /// The store is not fit to hold locks.
    Bad,
}

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The server, or the quorum, that the finding is about.
    pub server: String,
    pub check: Check,
    pub level: Level,
    /// The state of things, and why it matters.
    pub finding: String,
    /// The change to make, if any.
    pub advice: Option<String>,
}

/// The name of a check or a level, as in JSON.
pub fn name(of: impl Debug) -> String {
    format!("{of:?}").to_lowercase()
}

pub struct Findings {
    /// The name of the server in messages.
    pub server: String,
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
}

impl Findings {
    pub fn about(server: impl Into<String>) -> Findings {
        Findings { server: server.into(), findings: Vec::new() }
    }

    /// Everything is as it should be.
    pub fn ok(&mut self, check: Check, finding: impl Into<String>) {
        self.add(Level::Ok, check, finding, None);
    }

    /// Everything is as it should be, with something to say about it.
    pub fn note(&mut self, check: Check, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Ok, check, finding, Some(advice.into()));
    }

    /// It could not be seen; the advice says how to see it.
    pub fn unknown(&mut self, check: Check, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Unknown, check, finding, Some(advice.into()));
    }

    /// It works now, and can fail when something else does.
    pub fn warning(&mut self, check: Check, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warning, check, finding, Some(advice.into()));
    }

    /// A lock is not safe there, or cannot be taken.
    pub fn bad(&mut self, check: Check, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Bad, check, finding, Some(advice.into()));
    }

    fn add(&mut self, level: Level, check: Check, finding: impl Into<String>, advice: Option<String>) {
        let (server, finding) = (self.server.clone(), finding.into());
        self.findings.push(Finding { server, check, level, finding, advice });
    }
}
