//! The line about a wait at one moment: a place in the queue, or the error of a store that does not answer.

use std::time::Duration;

use super::phrases::{busy, left_on_lease};
use super::width::{cut, widest};
use crate::event::{Event, Waited};
use crate::lock::{Busy, DurationText, StoreError};
use crate::sanitize::sanitize;

/// The line at one moment of the wait.
pub struct WaitStatus {
    /// For one line of a terminal, which is cut at its end.
    pub short: String,
    /// The same without what follows, and the end of it that is never cut: the time that is left.
    pub kept_end: Option<(String, String)>,
    /// For a log.
    pub long: String,
    /// Holder and place in line: a change is worth a line in a log.
    pub standing: String,
}

/// In columns: below this the end is cut rather than the place in line.
const SHORTEST_BEGIN: usize = 50;

impl WaitStatus {
    /// One line of so many columns.
    pub(super) fn fitted(&self, columns: usize) -> String {
        let whole = sanitize(&format!("redlock: {}", self.short));
        let Some((begin, end)) =
            self.kept_end.as_ref().filter(|_| widest([&whole[..]].into_iter()) > columns)
        else {
            return cut(&whole, columns);
        };
        match columns.checked_sub(widest([&end[..]].into_iter())) {
            Some(room @ SHORTEST_BEGIN..) => cut(&sanitize(&format!("redlock: {begin}")), room) + end,
            _ => cut(&whole, columns),
        }
    }
}

/// The causes of a wait: a change is worth a line in a log.
pub fn standing(event: &Event) -> Option<String> {
    match event {
        Event::Waiting { busy, waited } => Some(in_line(busy, *waited).standing),
        Event::StoreUnreachable { error, waited } => Some(without_answer(error, *waited).standing),
        _ => None,
    }
}

/// A place in line. The most important part comes first where the line may be cut.
pub fn in_line(held: &Busy, waited: Waited) -> WaitStatus {
    let (short, long) = match held.ahead {
        None => ("waiting".to_owned(), String::new()),
        Some(0) => ("next in line".to_owned(), "; next in line".to_owned()),
        Some(ahead) => (format!("{ahead} ahead"), format!("; {ahead} ahead in line")),
    };
    let (busy, time) = (busy(held), time_waited(waited));
    let holder = held.holder.as_ref().map(|holder| (holder.fence, holder.since, holder.metadata.as_ref()));
    let place = with_time(&short, ", ", &time);
    let left = held.holder.as_ref().and_then(|holder| holder.left);
    WaitStatus {
        short: format!("{place}: {busy}"),
        kept_end: left.and_then(|left| {
            let (begin, _) = busy.split_once(&left_on_lease(left))?;
            Some((format!("{place}: {begin}"), format!("; {} left", DurationText(left))))
        }),
        long: with_time(&format!("{busy}{long}"), "; waiting for ", &time),
        standing: format!("{:?} {:?} {} {:?}", held.key, held.ahead, held.others, holder),
    }
}

pub fn without_answer(error: &StoreError, waited: Waited) -> WaitStatus {
    let time = time_waited(waited);
    let long = with_time(&error.to_string(), "; waiting for ", &time);
    WaitStatus {
        short: format!("{}: {error}", with_time("waiting", ", ", &time)),
        kept_end: None,
        long,
        standing: error.to_string(),
    }
}

fn with_time(text: &str, joint: &str, time: &str) -> String {
    if time.is_empty() { text.to_owned() } else { format!("{text}{joint}{time}") }
}

/// `12s of 5m`, after the first second.
fn time_waited(waited: Waited) -> String {
    let Waited { so_far, limit } = waited;
    match (so_far.as_secs(), limit) {
        (0, _) => String::new(),
        (seconds, None) => DurationText(Duration::from_secs(seconds)).to_string(),
        (seconds, Some(limit)) => {
            format!("{} of {}", DurationText(Duration::from_secs(seconds)), DurationText(limit))
        }
    }
}

#[test]
fn the_time_left_is_not_cut() {
    let status = |label: &str| WaitStatus {
        short: format!("next in line: 'X' is held by web1 ({label}) for 3m; 24s left on its lease"),
        kept_end: Some((
            format!("next in line: 'X' is held by web1 ({label}) for 3m"),
            "; 24s left".to_owned(),
        )),
        long: String::new(),
        standing: String::new(),
    };
    let short = "redlock: next in line: 'X' is held by web1 (a) for 3m; 24s left on its lease";
    assert_eq!(status("a").fitted(79), short);
    let cut = status(&"a".repeat(99)).fitted(79);
    assert!(cut.ends_with("a…; 24s left") && cut.chars().count() == 79, "{cut}");
    assert!(status(&"a".repeat(99)).fitted(39).ends_with('…'));
}
