//! The table and the JSON document of `status`.

use clap::builder::styling::Style;
use serde_json::{Value, json};

use super::output::document;
use super::phrases::{age, pids, time_json};
use crate::lock::{Breaker, DurationText, Holder, LockStatus, Metadata, Mode, Permits, Waiter};
use crate::sanitize::sanitize;

/// Locks as a table: a line for each holder and each waiter, cut at the `columns` of a terminal.
pub fn table(locks: &[LockStatus], colour: bool, columns: Option<usize>) -> String {
    let mut rows = vec![headings()];
    rows.extend(locks.iter().flat_map(|lock| rows_of(lock, time_left)));
    let heading = if colour { Style::new().bold() } else { Style::new() };
    super::width::table(&rows, heading, columns.unwrap_or(usize::MAX))
}

/// A line of the table.
pub type Row = [String; 8];

pub fn headings() -> Row {
    ["KEY", "STATE", "HOST", "PID", "USER", "FOR", "LEFT", "LABEL"].map(str::to_owned)
}

/// The lines of a lock, with what is left of a lease as `left` shows it.
pub fn rows_of(lock: &LockStatus, left: impl Fn(&Holder) -> String) -> Vec<Row> {
    let key = sanitize(lock.key.as_str());
    let mut rows = Vec::new();
    let mut add = |state: String, process: Option<&Metadata>, since: Option<u64>, left: String| {
        let [host, pid, user, label] = match process {
            Some(process) => {
                [process.host.clone(), pids(process), process.user.clone(), process.label.clone()]
            }
            None if left.is_empty() => Default::default(),
            None => ["another program", "", "", ""].map(str::to_owned),
        };
        let since = since.map_or(String::new(), |since| age(since).to_string());
        rows.push([key.clone(), state, host, pid, user, since, left, label]);
    };
    if !lock.is_in_use() {
        add("free".to_owned(), None, None, String::new());
    }
    for (place, holder) in (1..).zip(&lock.holders) {
        let metadata = &with_remarks(holder);
        let late = holder.is_late().then_some("late");
        let state = match lock.mode {
            _ if holder.broken.is_some() => "broken".to_owned(),
            _ if holder.is_kept => "kept".to_owned(),
            Mode::Exclusive if is_reserved(holder) => "reserved".to_owned(),
            Mode::Exclusive => late.unwrap_or("held").to_owned(),
            Mode::Shared => late.unwrap_or("shared").to_owned(),
            Mode::Semaphore(permits) => match holder.permits().map(Permits::numbers) {
                Some([number]) => format!("{}, permit {number}", late.unwrap_or("held")),
                Some(several) => format!("{}, {} permits", late.unwrap_or("held"), several.len()),
                None => format!("{} {place}/{permits}", late.unwrap_or("held")),
            },
        };
        add(state, metadata.as_ref(), holder.since, left(holder));
    }
    for (place, Waiter { mode, metadata }) in (1..).zip(&lock.waiters) {
        let to_share = if *mode == Mode::Shared { " to share" } else { "" };
        add(format!("waiting {place}{to_share}"), Some(metadata), Some(metadata.since), String::new());
    }
    rows
}

pub fn time_left(holder: &Holder) -> String {
    match holder.left {
        Some(left) => DurationText(left).to_string(),
        None if holder.hides_left => "?".to_owned(),
        None => "forever".to_owned(),
    }
}

fn is_reserved(holder: &Holder) -> bool {
    holder.metadata.as_ref().is_some_and(|metadata| metadata.reserved_until > 0)
}

/// The reason of a reservation replaces the label. The one who broke the lock follows it.
fn with_remarks(holder: &Holder) -> Option<Metadata> {
    let mut metadata = holder.metadata.clone();
    if let Some(metadata) = metadata.as_mut().filter(|metadata| !metadata.reason.is_empty()) {
        metadata.label = metadata.reason.clone();
    }
    if let (Some(metadata), Some(by)) = (&mut metadata, &holder.broken) {
        metadata.label += &format!(" (broken by {by})");
    }
    metadata
}

/// Locks as JSON. The fields are documented in redlock-status(1) and stable.
pub fn json(locks: &[LockStatus]) -> String {
    let locks = locks.iter().map(|lock| {
        let (kind, permits) = kind_json(lock.mode);
        json!({
            "key": lock.key.as_str(),
            "kind": kind,
            "permits": permits,
            "holders": lock.holders.iter().map(holder_json).collect::<Vec<_>>(),
            "waiters": lock.waiters.iter().map(waiter).collect::<Vec<_>>(),
        })
    });
    document(&Value::from_iter(locks))
}

/// The mode, and how many may hold the lock at once.
pub fn kind_json(mode: Mode) -> (&'static str, Option<u32>) {
    match mode {
        Mode::Exclusive => ("exclusive", None),
        Mode::Shared => ("shared", None),
        Mode::Semaphore(permits) => ("semaphore", Some(permits.get())),
    }
}

fn waiter(waiter: &Waiter) -> Value {
    let mut value = process(&waiter.metadata, Some(waiter.metadata.since));
    value["kind"] = kind_json(waiter.mode).0.into();
    value["priority"] = waiter.metadata.priority.get().into();
    value["take"] = waiter.metadata.weight().into();
    value
}

pub fn holder_json(holder: &Holder) -> Value {
    let metadata = holder.metadata.as_ref();
    let mut value = metadata.map_or(json!({}), |metadata| process(metadata, holder.since));
    value["foreign"] = holder.metadata.is_none().into();
    value["broken"] = holder.broken.is_some().into();
    value["broken_by"] = holder.broken.as_ref().map(Breaker::as_str).into();
    value["by_hand"] = metadata.is_some_and(|metadata| metadata.by_hand).into();
    value["reserved_until"] = metadata
        .filter(|_| is_reserved(holder))
        .and_then(|metadata| time_json(metadata.reserved_until))
        .into();
    value["reason"] = metadata.map(|metadata| &*metadata.reason).filter(|reason| !reason.is_empty()).into();
    let permits = holder.permits().map(Permits::numbers);
    value["permit"] = permits.and_then(|numbers| numbers.first().copied()).into();
    value["permits"] = permits.into();
    value["kept"] = holder.is_kept.into();
    value["fence"] = holder.fence.map(|fence| fence.0).into();
    value["ttl_ms"] = metadata.and_then(Metadata::ttl).map(|ttl| ttl.as_millis() as u64).into();
    value["left_ms"] = holder.left.map(|left| left.as_millis() as u64).into();
    value
}

fn process(metadata: &Metadata, since: Option<u64>) -> Value {
    json!({
        "host": metadata.host,
        "pid": metadata.pid,
        "while_pid": metadata.while_pid,
        "user": metadata.user,
        "label": metadata.label,
        "since": since.and_then(time_json),
    })
}
