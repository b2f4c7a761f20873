//! The table and the JSON document of `status`.

use std::time::{Duration, UNIX_EPOCH};

use clap::builder::styling::Style;
use serde_json::{Value, json};

use super::columns::{pad, widest};
use super::json::document;
use super::phrases::{age, pids};
use crate::lock::{DurationText, Holder, LockStatus, Metadata, Mode, Waiter};
use crate::sanitize::sanitize;

/// Locks as a table: a line for each holder and each waiter.
pub fn table(locks: &[LockStatus], colour: bool) -> String {
    let mut rows = vec![["KEY", "STATE", "HOST", "PID", "USER", "FOR", "LEFT", "LABEL"].map(str::to_owned)];
    for lock in locks {
        let key = &sanitize(lock.key.as_str());
        if lock.holders.is_empty() && lock.waiters.is_empty() {
            rows.push(row(key, "free", None, None, None));
        }
        for (place, holder) in lock.holders.iter().enumerate() {
            let held = match lock.mode {
                Mode::Exclusive => "held".to_owned(),
                Mode::Shared => "shared".to_owned(),
                Mode::Semaphore(permits) => format!("held {}/{permits}", place + 1),
            };
            let state = if holder.broken { "broken" } else { &held };
            let left = Some(holder.left.map_or("for ever".to_owned(), |left| DurationText(left).to_string()));
            rows.push(row(key, state, holder.metadata.as_ref(), holder.since, left));
        }
        for (place, waiter) in lock.waiters.iter().enumerate() {
            rows.push(row(
                key,
                &match waiter.mode {
                    Mode::Shared => format!("waiting {} to share", place + 1),
                    _ => format!("waiting {}", place + 1),
                },
                Some(&waiter.metadata),
                Some(waiter.metadata.since),
                None,
            ));
        }
    }
    align(&rows, if colour { Style::new().bold() } else { Style::new() })
}

fn row(
    key: &str,
    state: &str,
    process: Option<&Metadata>,
    since: Option<u64>,
    left: Option<String>,
) -> [String; 8] {
    let host = match (process, state) {
        (Some(process), _) => process.host.clone(),
        (None, "free") => String::new(),
        (None, _) => "another program".to_owned(),
    };
    [
        key.to_owned(),
        state.to_owned(),
        host,
        process.map(pids).unwrap_or_default(),
        process.map(|process| process.user.clone()).unwrap_or_default(),
        since.map(|since| age(since).to_string()).unwrap_or_default(),
        left.unwrap_or_default(),
        process.map(|process| process.label.clone()).unwrap_or_default(),
    ]
}

fn align(rows: &[[String; 8]], heading: Style) -> String {
    let widths: [usize; 8] = std::array::from_fn(|column| widest(rows.iter().map(|row| &row[column][..])));
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| pad(cell, width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = rows.iter().map(line);
    let first = lines.next().unwrap_or_default();
    let mut text = format!("{heading}{first}{heading:#}\n");
    lines.for_each(|line| text += &(line + "\n"));
    text
}

/// Locks as JSON. The fields are documented in redlock-status(1) and stable.
pub fn json(locks: &[LockStatus]) -> String {
    let locks = locks.iter().map(|lock| {
        json!({
            "key": lock.key.as_str(),
            "kind": kind(lock.mode),
            "permits": permits(lock.mode),
            "holders": lock.holders.iter().map(holder).collect::<Vec<_>>(),
            "waiters": lock.waiters.iter().map(waiter).collect::<Vec<_>>(),
        })
    });
    document(&Value::from_iter(locks))
}

fn waiter(waiter: &Waiter) -> Value {
    let mut value = process(&waiter.metadata, Some(waiter.metadata.since));
    value["kind"] = kind(waiter.mode).into();
    value
}

fn kind(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Semaphore(_) => "semaphore",
    }
}

fn permits(mode: Mode) -> Option<u32> {
    match mode {
        Mode::Semaphore(permits) => Some(permits.get()),
        _ => None,
    }
}

fn holder(holder: &Holder) -> Value {
    let mut value = match &holder.metadata {
        Some(metadata) => process(metadata, holder.since),
        None => json!({}),
    };
    value["foreign"] = holder.metadata.is_none().into();
    value["broken"] = holder.broken.into();
    value["fence"] = holder.fence.map(|fence| fence.0).into();
    value["left_ms"] = holder.left.map(|left| left.as_millis() as u64).into();
    value
}

fn process(metadata: &Metadata, since: Option<u64>) -> Value {
    let since = since.and_then(|since| UNIX_EPOCH.checked_add(Duration::from_millis(since)));
    // humantime has no text for years after 9999.
    let since = since.filter(|time| *time < UNIX_EPOCH + Duration::from_secs(253_402_300_800));
    json!({
        "host": metadata.host,
        "pid": metadata.pid,
        "while_pid": metadata.while_pid,
        "user": metadata.user,
        "label": metadata.label,
        "since": since.map(|time| humantime::format_rfc3339_millis(time).to_string()),
    })
}
