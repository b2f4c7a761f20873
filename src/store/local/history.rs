//! The history of locks: a row for each run, numbered within its key.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::lock::{HISTORY_RETENTION, History, Key, RunRecord, unix_millis};

const LATEST: &str =
    "SELECT number, skipped, run = '' FROM history WHERE key = ?1 ORDER BY number DESC LIMIT 1";
const ADD: &str = "INSERT INTO history (key, number, ended, skipped, run) VALUES (?1, ?2, ?3, ?4, ?5)
     ON CONFLICT (key, number) DO UPDATE SET ended = excluded.ended, skipped = excluded.skipped, run = excluded.run";
/// The last success stays, however long ago it was: `check --ran-within` asks for it. A quote within a text has a backslash.
const REMOVE: &str = "DELETE FROM history WHERE key = ?1 AND number <= ?2 AND number <>
     (SELECT coalesce(max(number), 0) FROM history WHERE key = ?1 AND instr(run, '\"outcome\":\"success\"') > 0)";

/// The statements of [`record`]: see the one of the holders.
pub const COMPILED_AHEAD: [&str; 3] = [LATEST, ADD, REMOVE];

/// Adds a run, or counts a call that did not get the lock. Their number since the latest run has a row without one.
pub fn record(tx: &Transaction, key: &Key, run: Option<&RunRecord>, keep: u8) -> rusqlite::Result<()> {
    let key = key.as_str();
    let mut latest = tx.prepare_cached(LATEST)?;
    let latest: Option<(i64, i64, bool)> =
        latest.query_row([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let (number, skipped) = match latest {
        Some((number, skipped, true)) => (number, skipped),
        Some((number, _, false)) => (number + 1, 0),
        None => (1, 0),
    };
    let (text, skipped) = match run {
        Some(run) => (run.to_json(), skipped),
        None => (String::new(), skipped + 1),
    };
    tx.prepare_cached(ADD)?.execute(params![key, number, unix_millis() as i64, skipped, text])?;
    let last = number - i64::from(keep) - i64::from(run.is_none());
    if last > 0 {
        tx.prepare_cached(REMOVE)?.execute(params![key, last])?;
    }
    Ok(())
}

pub fn history(tx: &Transaction, key: &Key) -> rusqlite::Result<History> {
    let mut rows =
        tx.prepare_cached("SELECT skipped, run FROM history WHERE key = ?1 ORDER BY number DESC")?;
    let rows = rows.query_map([key.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let mut history = History { key: key.clone(), runs: Vec::new(), skipped: 0 };
    for row in rows {
        let (skipped, run) = row?;
        match run.as_str() {
            "" => history.skipped = skipped.unsigned_abs(),
            run => history.runs.extend(RunRecord::from_untrusted(run, skipped.unsigned_abs())),
        }
    }
    Ok(history)
}

/// The keys that have one.
pub fn keys(tx: &Transaction) -> rusqlite::Result<Vec<Key>> {
    let mut keys = tx.prepare("SELECT DISTINCT key FROM history ORDER BY key")?;
    let keys = keys.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(keys.into_iter().filter_map(|key| key.parse().ok()).collect())
}

/// Forgets what is older than a history is kept.
pub fn forget(tx: &Transaction) -> rusqlite::Result<()> {
    let before = unix_millis().saturating_sub(HISTORY_RETENTION.as_millis() as u64);
    tx.execute("DELETE FROM history WHERE ended < ?1", [before as i64]).map(drop)
}
