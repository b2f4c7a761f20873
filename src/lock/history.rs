//! The history of a lock: its last runs, as the store keeps them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Key;
use super::metadata::clean;

/// The time for which a history is kept after the last run.
pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// One run under a lock, as redlock said it at its end.
///
/// Written by other people, on other hosts: read it with [`RunRecord::from_untrusted`] only. Times are in milliseconds
/// since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// When the lock was asked for, granted, and not needed any more.
    pub asked: u64,
    pub granted: u64,
    pub ended: u64,
    /// The result: a word of redlock-events(7), as "success".
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// That ended redlock, as it had ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub fence: u64,
    pub host: String,
    pub pid: u32,
    pub user: String,
    pub label: String,
    /// Its number among the runs of a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The user that broke the lock, and the reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub broken_by: String,
    /// The number of calls that found the lock busy since the run before.
    #[serde(skip)]
    pub skipped: u64,
}

/// The last runs under a lock.
#[derive(Clone, Debug)]
pub struct History {
    pub key: Key,
    /// The latest one first.
    pub runs: Vec<RunRecord>,
    /// The number of calls that found the lock busy since the latest run.
    pub skipped: u64,
}

impl History {
    /// Drops the note of a start where the run has ended since. The calls that were counted before it stay.
    pub fn without_starts(mut self) -> History {
        let who = |run: &RunRecord| (run.fence, run.pid, run.host.clone());
        let (starts, ended): (Vec<_>, Vec<_>) = self.runs.iter().cloned().partition(RunRecord::is_start);
        let has_ended = |start: &RunRecord| ended.iter().any(|run| who(run) == who(start));
        self.runs.retain(|run| !(run.is_start() && has_ended(run)));
        for start in starts {
            let run = self.runs.iter_mut().find(|run| !run.is_start() && who(run) == who(&start));
            run.into_iter().for_each(|run| run.skipped += start.skipped);
        }
        self
    }
}

impl RunRecord {
    /// The outcome of a run that has begun, and had not ended when this was written.
    pub const STARTED: &str = "started";

    pub fn is_start(&self) -> bool {
        self.outcome == RunRecord::STARTED
    }

    pub fn is_success(&self) -> bool {
        self.outcome == "success"
    }

    /// As it is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The run in `text`, made harmless; `None` for broken text.
    pub fn from_untrusted(text: &str, skipped: u64) -> Option<RunRecord> {
        let raw: RunRecord = serde_json::from_str(text).ok()?;
        let RunRecord { outcome, host, user, label, broken_by, .. } = &raw;
        let [outcome, host, user, label, broken_by] =
            [outcome, host, user, label, broken_by].map(|text| clean(text));
        Some(RunRecord { outcome, host, user, label, broken_by, skipped, ..raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_others_is_harmless() {
        let hostile = r#"{"outcome":"\u001b[2J","host":"a\u202eb","label":"x\ny","exit_status":3}"#;
        let run = RunRecord::from_untrusted(hostile, 2).unwrap_or_default();
        assert_eq!(
            (run.outcome.as_str(), run.host.as_str(), run.label.as_str()),
            ("\u{fffd}[2J", "a\u{fffd}b", "x y")
        );
        assert_eq!((run.exit_status, run.skipped), (Some(3), 2));
        assert_eq!(RunRecord::from_untrusted(&run.to_json(), 2), Some(run));
        assert_eq!(RunRecord::from_untrusted("{broken", 0), None);
    }
}
