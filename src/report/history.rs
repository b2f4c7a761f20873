//! The table and the JSON document of `history`.

use std::time::Duration;

use clap::builder::styling::Style;
use serde_json::{Value, json};

use super::output::document;
use super::phrases::{clock, names, time_json};
use super::width::table;
use crate::lock::{DurationText, History, Key, RunRecord};
use crate::sanitize::sanitize;

const HEADING: [&str; 10] =
    ["KEY", "ENDED", "RAN", "WAITED", "RESULT", "SKIPPED", "HOST", "PID", "USER", "LABEL"];

/// All runs as a table, cut at the `columns` of a terminal.
pub fn histories(histories: &[History], colour: bool, columns: Option<usize>) -> String {
    let mut rows = vec![HEADING.map(str::to_owned)];
    for History { key, runs, skipped } in histories {
        let key = sanitize(key.as_str());
        if *skipped > 0 {
            let since = if runs.is_empty() { "" } else { "since then" };
            let cells = [since, "", "", "busy", &skipped.to_string(), "", "", "", ""];
            rows.push(row(&key, cells.map(str::to_owned)));
        }
        rows.extend(runs.iter().map(|run| row(&key, cells(run))));
        if runs.is_empty() && *skipped == 0 {
            rows.push(row(&key, ["", "", "", "no runs", "", "", "", "", ""].map(str::to_owned)));
        }
    }
    table(&rows, if colour { Style::new().bold() } else { Style::new() }, columns.unwrap_or(usize::MAX))
}

/// What is known of each key since its latest run.
pub fn latest_runs(of: &[History], colour: bool, columns: Option<usize>) -> String {
    let latest = |history: &History| History {
        runs: history.runs.iter().take(1).cloned().collect(),
        ..history.clone()
    };
    histories(&of.iter().map(latest).collect::<Vec<_>>(), colour, columns)
}

fn row(key: &str, cells: [String; 9]) -> [String; 10] {
    let mut row = std::array::from_fn(|_| String::new());
    row[0] = key.to_owned();
    row[1..].clone_from_slice(&cells);
    row
}

fn cells(run: &RunRecord) -> [String; 9] {
    let between = |from: u64, to: u64| rounded(Duration::from_millis(to.saturating_sub(from)));
    [
        clock(run.ended),
        between(run.granted, run.ended),
        between(run.asked, run.granted),
        result(run),
        if run.skipped > 0 { run.skipped.to_string() } else { String::new() },
        run.host.clone(),
        run.pid.to_string(),
        run.user.clone(),
        run.label.clone(),
    ]
}

/// Says that nothing is recorded of these keys, and how to change that where a store keeps nothing by itself.
pub fn no_history(keys: &[Key], server: &str, is_kept: bool) -> String {
    let of = if keys.is_empty() { String::new() } else { format!(" of {}", names(keys)) };
    let advice = if is_kept { "" } else { "; redlock run --history 20 records the last 20" };
    sanitize(&format!("no runs{of} are recorded in {server}{advice}"))
}

/// What came of a run: `ok`, `exit 3`, `signal 9`, `lost`, `broken by anna@web3: stuck`.
pub fn result(run: &RunRecord) -> String {
    match (run.outcome.as_str(), run.exit_status, run.signal) {
        ("success", ..) => "ok".to_owned(),
        ("failure", Some(status), _) => format!("exit {status}"),
        ("killed" | "interrupted", _, Some(signal)) => format!("signal {signal}"),
        ("lost", ..) if !run.broken_by.is_empty() => format!("broken by {}", run.broken_by),
        (outcome, ..) => outcome.replace('_', " "),
    }
}

/// To a second, once there are ten of them.
fn rounded(duration: Duration) -> String {
    let shown = if duration.as_secs() < 10 { duration } else { Duration::from_secs(duration.as_secs()) };
    DurationText(shown).to_string()
}

/// Histories as JSON. The fields are documented in redlock-history(1) and stable.
pub fn histories_json(histories: &[History]) -> String {
    let histories = histories.iter().map(|History { key, runs, skipped }| {
        json!({
            "key": key.as_str(),
            "skipped": skipped,
            "runs": runs.iter().map(run_json).collect::<Vec<_>>(),
        })
    });
    document(&Value::from_iter(histories))
}

fn run_json(run: &RunRecord) -> Value {
    json!({
        "asked": time_json(run.asked),
        "granted": time_json(run.granted),
        "ended": time_json(run.ended),
        "outcome": run.outcome,
        "exit_status": run.exit_status,
        "signal": run.signal,
        "fence": run.fence,
        "host": run.host,
        "pid": run.pid,
        "user": run.user,
        "label": run.label,
        "broken_by": Some(&run.broken_by).filter(|by| !by.is_empty()),
        "skipped": run.skipped,
    })
}
