//! The history of locks: a list for each, and apart from it the last success, which is kept also where the list is not. No
//! script of the locks reads them, and nobody waits for what is added.

use redis::Cmd;

use super::keys::{history_name, key_of_history, success_name};
use super::reply::{accepted, items, text};
use super::routing::{Routing, Target};
use super::survey::scan;
use crate::lock::{HISTORY_RETENTION, History, Key, Result, RunRecord, Timeout};

const RECORD: &str = include_str!("record.lua");

/// Adds a run, or counts a call that did not get the lock.
pub fn record(key: &Key, run: Option<&RunRecord>, keep: u8) -> Option<Cmd> {
    let retention = HISTORY_RETENTION.as_millis() as u64;
    let success = run.filter(|run| run.is_success()).map(|run| {
        // It is all that is left of most locks, so it is short.
        RunRecord { user: String::new(), label: String::new(), ..run.clone() }.to_json()
    });
    if keep == 0 {
        return success.map(|success| {
            redis::cmd("SET").arg(success_name(key)).arg(success).arg("PX").arg(retention).take()
        });
    }
    let keys = [history_name(key), success_name(key)];
    let run = run.map_or(String::new(), RunRecord::to_json);
    let mut eval = redis::cmd("EVAL");
    Some(eval.arg(RECORD).arg(2).arg(&keys).arg(run).arg(keep).arg(retention).arg(success).take())
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
    let read = redis::cmd("GET").arg(success_name(&history.key)).take();
    let reply = on.execute(Target::Key(&history.key), &read, timeout)?;
    let success = RunRecord::from_untrusted(&text(Some(&accepted(reply, on.name())?)), 0);
    let is_listed = |success: &RunRecord| history.runs.iter().any(|run| run.ended == success.ended);
    if let Some(success) = success.filter(|success| !is_listed(success)) {
        let place = history.runs.partition_point(|run| run.ended > success.ended);
        history.runs.insert(place, success);
    }
    drop_earlier_successes(&mut history.runs);
    Ok(history)
}

/// Drops the notes of successes that are not the last one, which is the first in `runs`. Such a note arrived late at the
/// server, and replaced that of a later run.
pub fn drop_earlier_successes(runs: &mut Vec<RunRecord>) {
    let last = runs.iter().find(|run| run.is_success()).map(|run| run.ended);
    runs.retain(|run| !is_note(run) || Some(run.ended) == last);
}

/// True for the note of a last success. An entry of the list has a user.
pub fn is_note(run: &RunRecord) -> bool {
    run.is_success() && run.user.is_empty()
}
