//! `status` of one lock, in full: who has it, whether that one is alive, when it will be free, and what to do.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::phrases::{age, clock, pids, reservation};
use super::width::{cut, pad, widest};
use crate::job::is_gone;
use crate::lock::{DurationText, Holder, LockStatus, Metadata, Mode, Waiter, unix_millis};
use crate::sanitize::sanitize;
use crate::user::UserAtHost;

/// The lock as it was seen this long ago, with a line for each thing worth knowing, wrapped at the `columns` of a terminal.
/// Where its `usual` run is known, a waiter learns when its turn may come.
pub fn details(lock: &LockStatus, ago: Duration, usual: Option<Duration>, columns: Option<usize>) -> String {
    let mut rows = vec![(lock.key.as_str().to_owned(), heading(lock))];
    let mut add = |name: &str, text: String| rows.push((format!("  {name}"), text));
    for holder in &lock.holders {
        add("holder", who(holder.metadata.as_ref()));
        if let Some(since) = holder.since {
            add("since", format!("{}, {} ago", clock(since), age(since)));
        }
        add("lease", lease(holder, ago));
        if let Some(sequence) = holder.metadata.as_ref().and_then(|holder| holder.sequence) {
            add("sequence", sequence.to_string());
        }
        if let Some(permits) = holder.permits() {
            let name = if permits.numbers().len() > 1 { "permits" } else { "permit" };
            add(name, permits.to_string());
        }
        if let Some(fence) = holder.fence {
            add("fence", fence.to_string());
        }
    }
    for (place, Waiter { mode, metadata }) in (1..).zip(&lock.waiters) {
        let to_share = if *mode == Mode::Shared { " to share it" } else { "" };
        let priority = Some(metadata.priority).filter(|priority| !priority.is_default());
        let priority = priority.map_or(String::new(), |priority| format!(", priority {priority}"));
        let weight = Some(metadata.weight()).filter(|weight| *weight > 1);
        let weight = weight.map_or(String::new(), |weight| format!(", to take {weight} permits"));
        let turn = usual.and_then(|usual| turn(lock, usual, place));
        let turn = turn.map_or(String::new(), |turn| format!("; its turn in about {}", DurationText(turn)));
        let (who, age) = (who(Some(metadata)), age(metadata.since));
        add("waiting", format!("{place}. {who}, for {age}{to_share}{weight}{priority}{turn}"));
    }
    if let Some(advice) = advice(lock) {
        add("next", advice);
    }
    let width = widest(rows[1..].iter().map(|(name, _)| &name[..]));
    let columns = columns.unwrap_or(usize::MAX);
    let line = |(name, text): (String, String)| {
        let (name, text) = (sanitize(&name), sanitize(&text));
        // A long key leaves room for the state.
        let bound = columns.saturating_sub(text.width() + 2).max(width);
        let mut name = pad(&cut(&name, bound), width);
        let room = columns.saturating_sub(name.width() + 2);
        let line = |part: String| {
            let line = format!("{}  {part}", std::mem::replace(&mut name, " ".repeat(width)));
            cut(line.trim_end(), columns) + "\n"
        };
        wrapped(&text, room).into_iter().map(line).collect::<String>()
    };
    rows.into_iter().map(line).collect()
}

/// How long the waiter at this place, from 1 on, is likely to wait, in whole seconds: `None` when the holder takes longer than
/// usual, or several may hold the lock.
fn turn(lock: &LockStatus, usual: Duration, place: u32) -> Option<Duration> {
    let [holder] = &lock.holders[..] else { return None };
    let held = unix_millis().saturating_sub(holder.since?);
    let left = usual.checked_sub(Duration::from_millis(held)).filter(|_| lock.mode == Mode::Exclusive)?;
    Some(Duration::from_secs(left.saturating_add(usual.saturating_mul(place - 1)).as_secs().max(1)))
}

/// The text in lines of so many columns, broken between words. The runner of a CI system takes `::` at the beginning of a
/// line for a command.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last) if last.width() + 1 + word.width() <= columns || word.starts_with("::") => {
                *last += &format!(" {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn heading(lock: &LockStatus) -> String {
    match (lock.mode, lock.holders.len()) {
        (_, 0) if lock.waiters.is_empty() => "free".to_owned(),
        (_, 0) => "free; a waiter is being granted it".to_owned(),
        _ if lock.holders.iter().all(|holder| holder.is_kept) => "kept".to_owned(),
        (Mode::Exclusive, _) => "held".to_owned(),
        (Mode::Shared, 1) => "shared by one".to_owned(),
        (Mode::Shared, holders) => format!("shared by {holders}"),
        (Mode::Semaphore(permits), _) => format!("{} of {permits} permits held", lock.held_permits()),
    }
}

/// `web1 (pid 5009, "deploy.sh"), user anna`.
fn who(metadata: Option<&Metadata>) -> String {
    let Some(metadata) = metadata else {
        return "another program (no details recorded)".to_owned();
    };
    let label = Some(&metadata.label).filter(|label| !label.is_empty());
    let label = label.map_or(String::new(), |label| format!(", \"{label}\""));
    format!("{} (pid {}{label}), user {}", metadata.host, pids(metadata), metadata.user)
}

/// The known state of the lease, and its meaning. It has run on for as long `ago` as it was seen; whether it was renewed
/// since is not known.
fn lease(holder: &Holder, ago: Duration) -> String {
    let free = |left: Option<Duration>| {
        left.map_or(String::new(), |left| format!("; free in {} at the latest", DurationText(left)))
    };
    let ttl = holder.metadata.as_ref().and_then(Metadata::ttl);
    let is_by_hand = holder.metadata.as_ref().is_some_and(|metadata| metadata.by_hand);
    let left = holder.left.map(|left| left.saturating_sub(ago));
    match (&holder.broken, left, ttl) {
        (None, Some(left), _) if holder.is_kept => {
            let until = unix_millis().saturating_add(left.as_millis() as u64);
            format!("the job has ended; kept until {} by --min-hold, in {}", clock(until), DurationText(left))
        }
        (Some(by), left, _) if is_by_hand => format!("broken by {by}{}", free(left)),
        (Some(by), left, _) => {
            format!("broken by {by}; its redlock stops the job at its next renewal{}", free(left))
        }
        (None, left, _) if let Some(reservation) = reservation(holder) => {
            format!(
                "{reservation}{}",
                left.map_or(String::new(), |left| format!("; ends in {}", DurationText(left)))
            )
        }
        (None, None, _) if holder.hides_left => "it ends with the session of its holder".to_owned(),
        (None, None, _) => "never expires".to_owned(),
        (None, Some(Duration::ZERO), _) => "it has ended: the next one who asks gets the lock".to_owned(),
        (None, Some(left), _) if is_by_hand => {
            let until = unix_millis().saturating_add(left.as_millis() as u64);
            format!("taken by hand until {}, in {}", clock(until), DurationText(left))
        }
        (None, Some(left), Some(ttl)) => {
            let unrenewed = ttl.saturating_sub(left);
            let (ago, left, all) = (DurationText(unrenewed), DurationText(left), DurationText(ttl));
            match holder.metadata.as_ref().is_some_and(has_ended) {
                true => format!("its process has ended: free in {left} at the latest"),
                false if holder.is_late() => format!("not renewed for {ago}: free in {left} at the latest"),
                false => format!("alive: renewed {ago} ago, {left} left of {all}"),
            }
        }
        (None, Some(left), None) => format!("{} left", DurationText(left)),
    }
}

/// Advice for somebody who wants the lock.
fn advice(lock: &LockStatus) -> Option<String> {
    if lock.holders.is_empty() {
        return None;
    }
    if let Mode::Semaphore(permits) = lock.mode
        && let free @ 1.. = permits.get().saturating_sub(lock.held_permits())
        && lock.waiters.is_empty()
    {
        return Some(format!("ask with --permits {permits}: {free} of them are free"));
    }
    // Breaking is for all of them.
    let holders = || lock.holders.iter().filter(|holder| !holder.is_kept);
    let (jobs, are) = match holders().count() {
        0 => return Some("wait, or break it: that frees it now".to_owned()),
        1 => ("its job".to_owned(), "is"),
        several => (format!("the jobs of all {several} holders"), "are"),
    };
    let all = |is: fn(&Metadata) -> bool| holders().all(|holder| holder.metadata.as_ref().is_some_and(is));
    Some(if holders().any(|holder| holder.broken.is_some()) {
        format!("break it again only if {jobs} {are} dead: that frees it at once")
    } else if holders().all(|holder| holder.metadata.is_none()) {
        "wait, or break it: that frees it now, and its holder does not know".to_owned()
    } else if all(|metadata| metadata.by_hand) {
        "wait, or break it: once if the process that took it has ended, else twice".to_owned()
    } else if all(has_ended) || holders().all(Holder::is_late) {
        "wait: its redlock may be dead".to_owned()
    } else {
        format!("join the queue with --wait, or break it: that stops {jobs}")
    })
}

/// True if the holder was a process of this host and has ended.
fn has_ended(metadata: &Metadata) -> bool {
    metadata.host == UserAtHost::own().host && is_gone(metadata.pid, metadata.pid_namespace)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::job::own_pid_namespace;
    use crate::lock::Breaker;

    fn holder(left: u64) -> Holder {
        let [host, label, user] = ["ci-7", "make", "anna"].map(str::to_owned);
        let metadata = Metadata { host, pid: 4123, label, user, ttl_ms: 30_000, ..Metadata::default() };
        Holder { metadata: Some(metadata), left: Some(Duration::from_secs(left)), ..Holder::default() }
    }

    #[test]
    fn a_lease_is_told_in_words() {
        let broken = Holder { broken: Some(Breaker::new("anna", "web3", Some("stuck"))), ..holder(9) };
        let (mut by_hand, mut for_ever) = (holder(9), holder(9));
        by_hand.metadata.as_mut().expect("metadata").by_hand = true;
        for_ever.left = None;
        let kept = Holder { is_kept: true, ..holder(9) };
        for (holder, expected) in [
            (kept, "the job has ended; kept until "),
            (holder(26), "alive: renewed 4s ago, 26s left of 30s"),
            (holder(9), "not renewed for 21s: free in 9s at the latest"),
            (
                broken,
                "broken by anna@web3: stuck; its redlock stops the job at its next renewal; free in 9s at the latest",
            ),
            (by_hand, "taken by hand until "),
            (for_ever, "never expires"),
        ] {
            assert!(lease(&holder, Duration::ZERO).starts_with(expected), "{holder:?}");
        }
    }

    #[test]
    fn lines_are_wrapped_and_harmless() {
        let key = "deploy".parse().expect("a key");
        let mut holder = holder(26);
        holder.metadata.as_mut().expect("metadata").label = "\u{1b}[2J".repeat(50);
        let lock = LockStatus { key, mode: Mode::Exclusive, holders: vec![holder], waiters: Vec::new() };
        let text = details(&lock, Duration::ZERO, None, Some(60));
        assert!(text.starts_with("deploy    held\n  holder  ci-7 (pid 4123,"), "{text}");
        assert!(text.lines().all(|line| line.width() <= 60) && !text.contains('\u{1b}'), "{text}");
        let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.ends_with("join the queue with --wait, or break it: that stops its job"), "{text}");
    }

    #[test]
    fn a_waiter_learns_when_its_turn_may_come() {
        let turns = |held: u64, mode| {
            let since = Some(unix_millis() - held * 1000);
            let holders = vec![Holder { since, ..Holder::default() }];
            let key = "deploy".parse().expect("a key");
            let lock = LockStatus { key, mode, holders, waiters: Vec::new() };
            [1, 3].map(|place| {
                turn(&lock, Duration::from_secs(60), place).map(|turn| turn.as_secs().div_ceil(10))
            })
        };
        assert_eq!(turns(20, Mode::Exclusive), [Some(4), Some(16)]);
        assert_eq!(turns(61, Mode::Exclusive), [None, None]);
        assert_eq!(turns(20, Mode::Shared), [None, None]);
    }

    /// The advice must not end a job that is alive.
    #[test]
    fn advice_is_for_all_holders() {
        let told = |mode, holders: &[Holder]| {
            let key = "deploy".parse().expect("a key");
            advice(&LockStatus { key, mode, holders: holders.to_vec(), waiters: Vec::new() })
                .unwrap_or_default()
        };
        let kept = Holder { is_kept: true, ..holder(9) };
        let mut by_hand = holder(26);
        by_hand.metadata.as_mut().expect("metadata").by_hand = true;
        let (late, alive) = (holder(9), holder(26));
        assert_eq!(told(Mode::Shared, from_ref(&kept)), "wait, or break it: that frees it now");
        let stops = |jobs: &str| format!("join the queue with --wait, or break it: that stops {jobs}");
        assert_eq!(told(Mode::Shared, &[kept, alive.clone()]), stops("its job"));
        assert_eq!(told(Mode::Shared, &[late, alive.clone()]), stops("the jobs of all 2 holders"));
        assert_eq!(told(Mode::Shared, &[by_hand, alive.clone()]), stops("the jobs of all 2 holders"));
        let broken = Holder { broken: Some(Breaker::new("anna", "web3", None)), ..holder(26) };
        let again = told(Mode::Shared, &[alive.clone(), broken]);
        assert!(again.starts_with("break it again only if the jobs of all 2 holders are dead"), "{again}");
        let permits = Mode::Semaphore(5.try_into().expect("a number"));
        assert_eq!(told(permits, &[alive]), "ask with --permits 5: 4 of them are free");
    }

    /// Containers may share the name of a host.
    #[test]
    fn a_process_that_cannot_be_seen_has_not_ended() {
        let host = UserAtHost::own().host;
        let gone = Metadata { host, pid: i32::MAX as u32, ..Metadata::default() };
        let own = Metadata { pid_namespace: own_pid_namespace(), ..gone.clone() };
        let another = Metadata { pid_namespace: Some(1), ..gone.clone() };
        assert_eq!([gone, another, own].map(|process| has_ended(&process)), [false, false, true]);
    }

    /// At the beginning of a line it is a command for the runner of a CI system.
    #[test]
    fn a_line_does_not_begin_with_a_command() {
        let lines = wrapped("of others ::add-mask::x and more", 12);
        assert_eq!(lines, ["of others ::add-mask::x", "and more"]);
    }

    /// The state of the lock is in sight, however long its key is.
    #[test]
    fn a_long_key_leaves_room_for_the_state() {
        let key = "k".repeat(300).parse().expect("a key");
        let lock = LockStatus {
            key,
            mode: Mode::Shared,
            holders: vec![holder(26), holder(26)],
            waiters: Vec::new(),
        };
        let text = details(&lock, Duration::ZERO, None, Some(60));
        let first = text.lines().next().expect("a line");
        assert!(first.starts_with("kkkk") && first.ends_with("…  shared by 2"), "{text}");
        assert_eq!(first.width(), 60, "{text}");
        assert!(
            details(&lock, Duration::ZERO, None, None).starts_with(&format!("{}  shared", "k".repeat(300)))
        );
    }

    /// A holder that was in time when it was seen is not late because nobody looked since.
    #[test]
    fn a_lease_runs_on_and_is_not_late_for_that() {
        let seen = lease(&holder(20), Duration::from_secs(8));
        assert_eq!(seen, "alive: renewed 18s ago, 12s left of 30s");
    }
}
