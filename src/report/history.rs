//! The table and the JSON document of `history`.

use std::iter::repeat;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Value, json};

use super::output::document;
use super::phrases::{clock, names, time_json};
use super::width::{aligned, bar};
use crate::lock::{DurationText, History, Key, RunRecord};
use crate::sanitize::sanitize;

const HEADING: [&str; 10] =
    ["KEY", "ENDED", "RAN", "WAITED", "RESULT", "SKIPPED", "HOST", "PID", "USER", "LABEL"];

/// All runs as a table. On a terminal it is cut at the `columns`, and a bar beside each run shows how long it took.
pub fn histories(histories: &[History], colour: bool, columns: Option<usize>) -> String {
    runs_table(histories, usize::MAX, colour, columns)
}

/// The news of each key since its latest run.
pub fn latest_runs(histories: &[History], colour: bool, columns: Option<usize>) -> String {
    runs_table(histories, 1, colour, columns)
}

/// The last runs of each key: so many at most.
fn runs_table(histories: &[History], most: usize, colour: bool, columns: Option<usize>) -> String {
    let mut rows = vec![HEADING.map(str::to_owned)];
    let mut styles = vec![if colour { Style::new().bold() } else { Style::new() }];
    for History { key, runs, skipped } in histories {
        let key = sanitize(key.as_str());
        let longest = runs.iter().map(ran).max().filter(|_| columns.is_some());
        if *skipped > 0 {
            let since = if runs.is_empty() { "" } else { "since then" };
            let cells = [since, "", "", "busy", &skipped.to_string(), "", "", "", ""];
            rows.push(row(&key, cells.map(str::to_owned)));
        }
        styles.resize(rows.len(), Style::new());
        rows.extend(runs.iter().take(most).map(|run| row(&key, cells(run, longest))));
        styles.extend(runs.iter().take(most).map(|run| if colour { style_of(run) } else { Style::new() }));
        if runs.is_empty() && *skipped == 0 {
            rows.push(row(&key, ["", "", "", "no runs", "", "", "", "", ""].map(str::to_owned)));
        }
    }
    let lines = aligned(&rows, columns.unwrap_or(usize::MAX));
    let styles = styles.into_iter().chain(repeat(Style::new()));
    lines.into_iter().zip(styles).map(|(line, style)| format!("{style}{line}{style:#}\n")).collect()
}

/// A run that went well is calm.
fn style_of(run: &RunRecord) -> Style {
    match run.outcome.as_str() {
        "success" => AnsiColor::Green.on_default(),
        RunRecord::STARTED => Style::new(),
        _ => AnsiColor::Red.on_default(),
    }
}

fn ran(run: &RunRecord) -> Duration {
    Duration::from_millis(run.ended.saturating_sub(run.granted))
}

fn row(key: &str, cells: [String; 9]) -> [String; 10] {
    let mut row = std::array::from_fn(|_| String::new());
    row[0] = key.to_owned();
    row[1..].clone_from_slice(&cells);
    row
}

/// The cells behind the key; with a bar where the duration of the `longest` run is known.
fn cells(run: &RunRecord, longest: Option<Duration>) -> [String; 9] {
    let part =
        |longest: Duration| ran(run).as_secs_f64() / longest.max(Duration::from_millis(1)).as_secs_f64();
    let bar = longest.map_or(String::new(), |longest| bar(part(longest)) + " ");
    [
        clock(run.ended),
        bar + &rounded(ran(run)),
        rounded(Duration::from_millis(run.granted.saturating_sub(run.asked))),
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

/// The outcome of a run: `ok`, `exit 3`, `signal 9`, `lost`, `broken by anna@web3: stuck`.
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
        "sequence": run.sequence,
        "broken_by": Some(&run.broken_by).filter(|by| !by.is_empty()),
        "skipped": run.skipped,
    })
}

#[test]
fn a_bar_shows_how_long_a_run_took() {
    let run = |seconds: u64, outcome: &str| RunRecord {
        ended: seconds * 1000,
        outcome: outcome.to_owned(),
        ..RunRecord::default()
    };
    let runs = vec![run(5, "success"), run(20, "lost"), run(0, "success")];
    let one = [History { key: "X".parse().expect("a key"), runs, skipped: 0 }];
    let terminal = histories(&one, true, Some(120));
    let lines: Vec<&str> = terminal.lines().collect();
    assert!(lines[1].starts_with("\u{1b}[32mX ") && lines[1].contains("  ██░░░░░░ 5s "), "{terminal}");
    assert!(lines[2].starts_with("\u{1b}[31mX ") && lines[2].contains("  ████████ 20s "), "{terminal}");
    assert!(lines[3].contains("  ░░░░░░░░ 0s "), "{terminal}");
    // The last one is compared with those before it.
    let latest = latest_runs(&one, false, Some(120));
    assert!(latest.contains("  ██░░░░░░ 5s ") && latest.lines().count() == 2, "{latest}");
    assert!(!histories(&one, false, None).contains('░'));
}
