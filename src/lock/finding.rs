use serde::Serialize;

/// What `doctor` found out about a store.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Of which server, or of which quorum.
    pub server: String,
    /// What was looked at: one word, which does not change.
    pub check: &'static str,
    pub level: Level,
    /// What there is, and why it matters.
    pub finding: String,
    /// What to change, if anything.
    pub advice: Option<String>,
}

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
pub struct Report {
    pub server: String,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn about(server: impl Into<String>) -> Report {
        Report { server: server.into(), findings: Vec::new() }
    }

    pub fn ok(&mut self, check: &'static str, finding: impl Into<String>) {
        self.add(Level::Ok, check, finding, None);
    }

    /// As it should be, and there is something to say about it.
    pub fn note(&mut self, check: &'static str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Ok, check, finding, Some(advice.into()));
    }

    pub fn unknown(&mut self, check: &'static str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Unknown, check, finding, Some(advice.into()));
    }

    pub fn warning(&mut self, check: &'static str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warning, check, finding, Some(advice.into()));
    }

    pub fn bad(&mut self, check: &'static str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Bad, check, finding, Some(advice.into()));
    }

    fn add(&mut self, level: Level, check: &'static str, finding: impl Into<String>, advice: Option<String>) {
        let (server, finding) = (self.server.clone(), finding.into());
        self.findings.push(Finding { server, check, level, finding, advice });
    }
}
