//! What `doctor` finds out about a store.

mod check;
mod trial;
mod ttl;

pub use check::Check;
use serde::Serialize;
pub use trial::{Trial, Trouble, judge};
pub use ttl::{Requirements, millis};

/// What `doctor` found out about a store.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Of which server, or of which quorum.
    pub server: String,
    /// What was looked at.
    pub check: Check,
    pub level: Level,
    /// What there is, and why it matters.
    pub finding: String,
    /// What to change, if anything.
    pub advice: Option<String>,
}

/// How bad it is, from the best to the worst; `bad` alone changes the exit status.
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

impl Level {
    /// As in the table and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Unknown => "unknown",
            Level::Warning => "warning",
            Level::Bad => "bad",
        }
    }
}

/// What was found out about one server.
pub struct Findings {
    pub server: String,
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
}

impl Findings {
    /// An empty report; `server` is what messages call the server.
    pub fn about(server: impl Into<String>) -> Findings {
        Findings { server: server.into(), findings: Vec::new() }
    }

    /// As it should be.
    pub fn ok(&mut self, check: Check, finding: impl Into<String>) {
        self.add(Level::Ok, check, finding, None);
    }

    /// As it should be, and there is something to say about it.
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
