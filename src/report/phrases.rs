//! Locks in a sentence.

use std::time::Duration;

use crate::lock::{Busy, DurationText, Holder, Key, Metadata, unix_millis};

/// `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'`.
pub fn names<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    let mut names: Vec<String> = keys.into_iter().map(|key| format!("'{key}'")).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
}

/// `'deploy' is held by ci-7 (pid 4123, "make deploy") for 3m12s; 24s left on its lease`.
pub fn busy(busy: &Busy) -> String {
    let key = &busy.key;
    match &busy.holder {
        Some(holding) => format!("'{key}' is held by {}", holder(holding)),
        None => format!("'{key}' is held by another"),
    }
}

/// `ci-7 (pid 4123, "make deploy") for 3m12s; 24s left on its lease`.
pub fn holder(holding: &Holder) -> String {
    let mut text = holding.metadata.as_ref().map_or("another program".to_owned(), who);
    if let Some(since) = holding.since {
        text += &format!(" for {}", age(since));
    }
    text += &match holding.left {
        Some(left) => format!("; {} left on its lease", DurationText(left)),
        None => "; its lease never expires".to_owned(),
    };
    if holding.broken {
        text += ", which was broken";
    }
    text
}

/// Why a lock is lost: `somebody broke it`, `it is held by ci-7 (pid 4123)…`.
pub fn lost_to(now_held: Option<&Holder>) -> String {
    match now_held {
        None => "it was granted to another since".to_owned(),
        Some(now) if now.broken => "somebody broke it".to_owned(),
        Some(now) => format!("it is held by {}", holder(now)),
    }
}

/// `4123`, or `4123 for 4100` of a keeper.
pub fn pids(who: &Metadata) -> String {
    let kept_for = who.while_pid.map_or(String::new(), |pid| format!(" for {pid}"));
    format!("{}{kept_for}", who.pid)
}

fn who(metadata: &Metadata) -> String {
    let host = if metadata.host.is_empty() { "somebody" } else { &metadata.host };
    let pid = pids(metadata);
    match metadata.label.as_str() {
        "" => format!("{host} (pid {pid})"),
        label => format!("{host} (pid {pid}, \"{}\")", shortened(label)),
    }
}

/// The beginning of a label: in a sentence it is only to be recognised.
fn shortened(label: &str) -> String {
    match label.char_indices().nth(60) {
        Some((end, _)) => label[..end].to_owned() + "…",
        None => label.to_owned(),
    }
}

/// The time since a point in milliseconds since the epoch, by this host's wall clock.
pub fn age(since: u64) -> DurationText {
    DurationText(Duration::from_millis(unix_millis().saturating_sub(since)))
}
