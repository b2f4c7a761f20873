//! The history of locks: a list for each. No script of the locks reads it, and nobody waits for what is added to it.

use redis::Cmd;

use super::keys::{history_name, key_of_history};
use super::reply::{accepted, items, text};
use super::routing::{Routing, Target};
use super::survey::scan;
use crate::lock::{HISTORY_RETENTION, History, Key, Result, RunRecord, Timeout};

const RECORD: &str = include_str!("record.lua");

/// Adds a run, or counts a call that did not get the lock.
pub fn record(key: &Key, run: Option<&RunRecord>, keep: u8) -> Cmd {
    let run = run.map_or(String::new(), RunRecord::to_json);
    let retention = HISTORY_RETENTION.as_millis() as u64;
    redis::cmd("EVAL").arg(RECORD).arg(1).arg(history_name(key)).arg(run).arg(keep).arg(retention).take()
}

/// The histories of these locks, or of all that have one.
pub fn histories(on: &mut impl Routing, keys: &[Key], timeout: &Timeout) -> Result<Vec<History>> {
    let known = if keys.is_empty() { scan(on, key_of_history, timeout)? } else { keys.to_vec() };
    known.into_iter().map(|key| history(on, key, timeout)).collect()
}

fn history(on: &mut impl Routing, key: Key, timeout: &Timeout) -> Result<History> {
    let read = redis::cmd("LRANGE").arg(history_name(&key)).arg(0).arg(-1).take();
    let reply = on.execute(Target::Key(&key), &read, timeout)?;
    let entries = items(accepted(reply, on.name())?);
    let mut history = History { key, runs: Vec::new(), skipped: 0 };
    for entry in &entries {
        let entry = text(Some(entry));
        match entry.split_once(' ') {
            Some((skipped, run)) => {
                history.runs.extend(RunRecord::from_untrusted(run, skipped.parse().unwrap_or(0)));
            }
            None => history.skipped = entry.parse().unwrap_or(0),
        }
    }
    Ok(history)
}
