//! Locks in a sentence.

use std::time::{Duration, UNIX_EPOCH};

use jiff::{Timestamp, Zoned};

use crate::event::{LeftBehind, LossConsequence};
use crate::lock::{Busy, DurationText, Holder, Key, LossCause, Metadata, StoreError, unix_millis};
use crate::quoting::quoted;

/// `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'`.
pub fn names<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    let mut names: Vec<String> = keys.into_iter().map(|key| format!("'{key}'")).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
}

/// `'deploy' is held by ci-7 (pid 4123, "make deploy") for 3m12s; 24s left on its lease`.
pub fn busy(busy: &Busy) -> String {
    let reserved = busy.holder.as_ref().filter(|holder| busy.others == 0 && holder.broken.is_none());
    if let Some(reservation) = reserved.and_then(reservation) {
        return format!("'{}' is {reservation}", busy.key);
    }
    let holder = busy.holder.as_ref().map_or("another".to_owned(), |one| one_of(one, busy.others));
    format!("'{}' is held by {holder}", busy.key)
}

/// `reserved by anna until 18:00: load test`, for a holder that is a person.
pub fn reservation(holder: &Holder) -> Option<String> {
    let metadata = holder.metadata.as_ref().filter(|metadata| metadata.reserved_until > 0)?;
    // A renewal by hand may have moved the end.
    let end = holder.left.map(|left| unix_millis().saturating_add(left.as_millis() as u64));
    let until =
        end.filter(|end| end.abs_diff(metadata.reserved_until) > 5_000).unwrap_or(metadata.reserved_until);
    let reason = if metadata.reason.is_empty() { String::new() } else { format!(": {}", metadata.reason) };
    Some(format!("reserved by {} until {}{reason}", metadata.user, minute(until)))
}

/// The advice about a lock that never expires: its holder may be gone.
pub fn how_to_break(busy: &Busy) -> Option<String> {
    let holder = busy.holder.as_ref().filter(|holder| holder.left.is_none() && !holder.hides_left);
    holder.map(|_| format!(". To take it away: redlock break -k {}", quoted(busy.key.as_str().as_ref())))
}

/// `'deploy' is held by ci-7 (pid 4123, "make deploy") for 3m12s; 24s left on its lease. Break it?`.
/// With a token only one of several holders is meant, and nobody sees which.
pub fn break_question(key: &Key, first: &Holder, others: &[Holder], by_token: bool) -> String {
    let is_broken = [first].into_iter().chain(others).any(|holder| holder.broken.is_some());
    let again = match is_broken {
        true => "It is broken already: breaking it again frees it at once, even if its job still runs. ",
        false => "",
    };
    let holders = match by_token && !others.is_empty() {
        true => format!("{}: only the one with this token loses it", others.len() + 1),
        false => one_of(first, others.len()),
    };
    format!("'{key}' is held by {holders}. {again}Break it?")
}

/// `did not break 'deploy': it is now held by ci-8 (pid 5009, "make deploy") for 2s; 28s left on its lease`.
pub fn not_as_asked(key: &Key, now: &Holder) -> String {
    match &now.broken {
        Some(by) => format!("did not break '{key}': it was already broken by {by}"),
        None => format!("did not break '{key}': it is now held by {}", holder(now)),
    }
}

/// `this token does not hold 'deploy'`.
pub fn not_held(locks: &str) -> String {
    format!("this token does not hold {locks}")
}

/// `'sh' left processes behind (pid 4123, sleep)`.
pub fn left_behind(of: &LeftBehind) -> String {
    let one = of.one.as_ref().map_or(String::new(), |(pid, name)| format!(" (pid {pid}, {name})"));
    format!("'{}' left processes behind{one}", of.command)
}

/// `ci-7 (pid 4123, "make deploy") for 3m12s; 24s left on its lease`.
pub fn holder(holder: &Holder) -> String {
    one_of(holder, 0)
}

/// The same, with the number of the other holders. One label of several says little, and the line may be cut.
pub fn one_of(holder: &Holder, others: usize) -> String {
    let mut text = match &holder.metadata {
        None => "another program".to_owned(),
        Some(metadata) if others > 0 => process_without_label(metadata),
        Some(metadata) => process(metadata),
    };
    if others > 0 {
        text += &format!(" and {others} more");
    }
    if let Some(since) = holder.since {
        text += &format!(" for {}", age(since));
    }
    text += &match holder.left {
        Some(left) => left_on_lease(left),
        None if holder.hides_left => String::new(),
        None => "; its lease never expires".to_owned(),
    };
    if let Some(by) = &holder.broken {
        text += &format!("; broken by {by}");
    }
    text
}

/// The end of such a phrase.
pub fn left_on_lease(left: Duration) -> String {
    format!("; {} left on its lease", DurationText(left))
}

/// `lost 'deploy': nobody holds it any more; stopping the job`.
pub fn loss(locks: &str, cause: &LossCause, consequence: LossConsequence) -> String {
    let during = match consequence {
        LossConsequence::NothingStartedAfterWait => " while the others were waited for",
        _ => "",
    };
    let cause = match cause {
        LossCause::Released => "it was released with its owner token".to_owned(),
        LossCause::NotHeld => "nobody holds it any more".to_owned(),
        LossCause::Taken(None) => "it was broken or deleted, or granted to another since".to_owned(),
        LossCause::Taken(Some(now)) => match &now.broken {
            Some(by) => format!("it was broken with `redlock break` by {by}"),
            None => format!("it is held by {}", holder(now)),
        },
        LossCause::Expired(why) => {
            let unknown = || "redlock was stopped, the machine slept, or the store was slow".to_owned();
            let why = why.as_ref().map_or_else(unknown, StoreError::to_string);
            format!("no renewal came through in time ({why})")
        }
    };
    let consequence = match consequence {
        LossConsequence::JobIsStopped => "stopping the job".to_owned(),
        LossConsequence::JobWasStopped => "the job was stopped".to_owned(),
        LossConsequence::JobContinues => "the job goes on without it".to_owned(),
        LossConsequence::JobRanOn => "the job ran on, and has ended".to_owned(),
        LossConsequence::JobHadEnded => "the job had ended before".to_owned(),
        LossConsequence::NothingStarted | LossConsequence::NothingStartedAfterWait => {
            "nothing was started".to_owned()
        }
        LossConsequence::ProcessTerminated(pid) => format!("SIGTERM was sent to process {pid}"),
        LossConsequence::ProcessContinues(pid) => format!("process {pid} goes on without it"),
    };
    format!("lost {locks}{during}: {cause}; {consequence}")
}

/// `4123`, or `4123 for 4100` of a holder in the background.
pub fn pids(metadata: &Metadata) -> String {
    let while_pid = metadata.while_pid.map_or(String::new(), |pid| format!(" for {pid}"));
    format!("{}{while_pid}", metadata.pid)
}

pub fn process(metadata: &Metadata) -> String {
    match metadata.label.as_str() {
        "" => process_without_label(metadata),
        label => format!("{} (pid {}, \"{}\")", host(metadata), pids(metadata), shortened(label)),
    }
}

fn process_without_label(metadata: &Metadata) -> String {
    format!("{} (pid {})", host(metadata), pids(metadata))
}

fn host(metadata: &Metadata) -> &str {
    if metadata.host.is_empty() { "somebody" } else { &metadata.host }
}

/// The beginning of a label, enough to recognise it. A part of a URL leads nowhere.
fn shortened(label: &str) -> String {
    match label.char_indices().nth(60) {
        _ if label.starts_with("http") => label.to_owned(),
        Some((end, _)) => label[..end].to_owned() + "…",
        None => label.to_owned(),
    }
}

/// The time since a point in milliseconds since the epoch, by this host's wall clock.
pub fn age(since: u64) -> DurationText {
    DurationText(Duration::from_millis(unix_millis().saturating_sub(since)))
}

/// `14:51:57` of today, or with the date: by the clock and in the time zone of this host.
pub fn clock(unix_millis: u64) -> String {
    time(unix_millis, "%H:%M:%S")
}

/// `14:51`, or with the seconds if there are any.
fn minute(unix_millis: u64) -> String {
    time(unix_millis, if (unix_millis / 1000).is_multiple_of(60) { "%H:%M" } else { "%H:%M:%S" })
}

fn time(unix_millis: u64, of_day: &str) -> String {
    let Ok(time) = Timestamp::from_millisecond(unix_millis as i64) else {
        return "an unknown time".to_owned();
    };
    let (time, now) = (time.to_zoned(jiff::tz::TimeZone::system()), Zoned::now());
    let date = if time.date() == now.date() { "" } else { "%Y-%m-%d " };
    time.strftime(&format!("{date}{of_day}")).to_string()
}

/// As JSON has it: RFC 3339; `None` for a time that it has no text for.
pub fn time_json(unix_millis: u64) -> Option<String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(unix_millis))?;
    // humantime has no text for years after 9999.
    let is_early = time < UNIX_EPOCH + Duration::from_secs(253_402_300_800);
    is_early.then(|| humantime::format_rfc3339_millis(time).to_string())
}
