//! The history of locks: what a run adds to it, and what is there.

use std::slice::from_ref;
use std::time::Duration;

use super::Context;
use crate::error::{Failure, Outcome};
use crate::event::{RunOutcome, Summary};
use crate::lock::{History, Key, Lease, Result, RunRecord, Store, StoreAdmin, Timeout, unix_millis};
use crate::options::RunOptions;
use crate::report;
use crate::user::UserAtHost;

/// The run has ended, and somebody waits for the prompt. Mostly the store has just answered, and is busy rather than gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// The line about a wait goes without the usual time of a run where the store takes longer.
const PATIENCE_OF_A_LINE: Duration = Duration::from_millis(200);

/// Adds this run to the history of each lock that it was granted, or counts it where it was not. Locks that it takes for the
/// sake of others below them are left out. A failure leaves a gap in the history.
pub fn record(outcome: Outcome, options: &RunOptions, store: &mut dyn Store, context: &Context) {
    record_within(&Timeout::of(PATIENCE), outcome, options, store, context);
}

/// The same, with more time.
pub fn record_within(
    timeout: &Timeout,
    outcome: Outcome,
    options: &RunOptions,
    store: &mut dyn Store,
    context: &Context,
) {
    let (keep, above) = (options.history, &options.lock.above);
    let summary = &context.reporter.summary_at(outcome);
    if matches!(summary.outcome(), RunOutcome::AlreadyRan | RunOutcome::Outdated) {
        return;
    }
    let is_skipped =
        matches!(summary.outcome(), RunOutcome::Busy | RunOutcome::GaveUp | RunOutcome::Superseded);
    let keys = if is_skipped { &summary.keys } else { &summary.granted };
    let mut record = |(place, key)| {
        let run = (!is_skipped).then(|| run(summary, place));
        store.record(key, run.as_ref(), keep, timeout).is_ok()
    };
    // The last success is kept even without a history. One that fails ends it: the others would only wait as well.
    let is_kept = keep > 0 || summary.outcome() == RunOutcome::Success;
    let _ = is_kept && keys.iter().enumerate().filter(|(_, key)| !above.contains(key)).all(&mut record);
}

/// Notes that a run begins, in the history of each lock that it holds, also of those that it inherits.
pub fn record_starts(
    leases: &[Lease],
    keep: u8,
    timeout: &Timeout,
    store: &mut dyn Store,
    context: &Context,
) -> Result<Vec<RunRecord>> {
    let begun = run(&context.reporter.summary_at(Outcome::SUCCESS), 0);
    let record = |lease: &Lease| {
        let (outcome, fence) = (RunRecord::STARTED.to_owned(), lease.fence.0);
        let start = RunRecord { outcome, exit_status: None, fence, ..begun.clone() };
        store.record(&lease.request.key, Some(&start), keep, timeout).map(|()| start)
    };
    leases.iter().map(record).collect()
}

/// How long a run under this lock takes: the median of those that succeeded, if there are three. A store that does not
/// answer knows none.
pub fn usual_run(key: &Key, store: &mut dyn StoreAdmin, context: &Context) -> Option<Duration> {
    let histories = store.history(from_ref(key), &context.timeout().at_most(PATIENCE_OF_A_LINE)).ok()?;
    let successes = histories.iter().flat_map(|history| &history.runs).filter(|run| run.is_success());
    let mut millis: Vec<u64> = successes.map(|run| run.ended.saturating_sub(run.granted)).collect();
    millis.sort_unstable();
    (millis.len() >= 3).then(|| Duration::from_millis(millis[millis.len() / 2]))
}

/// The clocks of two hosts differ by less, in milliseconds.
const CLOCK_SKEW: u64 = 60_000;

/// The time since a run ended, both in milliseconds since the Unix epoch; `None` for one in the future: a clock was wrong.
fn age_at(now: u64, ended: u64) -> Option<Duration> {
    (ended <= now + CLOCK_SKEW).then(|| Duration::from_millis(now.saturating_sub(ended)))
}

/// True if the run ended so long ago at most.
pub fn ended_within(run: &RunRecord, period: Duration) -> bool {
    age_at(unix_millis(), run.ended).is_some_and(|age| age <= period)
}

/// The histories of these locks, or of all that have one.
pub fn read(keys: &[Key], context: &Context) -> std::result::Result<Vec<History>, Failure> {
    context.options.server.capabilities().history.map_err(Failure::configuration)?;
    let histories = context.open_store().history(keys, &context.timeout());
    let histories = histories.map_err(|error| context.explain(error))?;
    Ok(histories.into_iter().map(History::without_starts).collect())
}

/// Says that nothing is recorded of these keys.
pub fn no_history(keys: &[Key], context: &Context) -> String {
    let server = &context.options.server;
    let is_kept = server.capabilities().history.is_ok_and(|default| default > 0);
    report::no_history(keys, &server.to_string(), is_kept)
}

/// The run under the lock that was granted at this place.
fn run(summary: &Summary, place: usize) -> RunRecord {
    let UserAtHost { user, host } = UserAtHost::own();
    let ended = unix_millis();
    let asked = ended.saturating_sub(summary.since_request().as_millis() as u64);
    let (exit_status, signal) = match summary.exit {
        Some(Outcome::Exit(status)) => (Some(status), None),
        Some(Outcome::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    RunRecord {
        asked,
        granted: asked + summary.waited.as_millis() as u64,
        ended,
        outcome: summary.outcome().name().to_owned(),
        exit_status,
        signal,
        fence: summary.fences.get(place).map_or(0, |fence| fence.0),
        host,
        pid: std::process::id(),
        user,
        label: summary.label.clone(),
        sequence: summary.sequence,
        broken_by: summary.broken_by.as_ref().map_or(String::new(), |by| by.as_str().to_owned()),
        skipped: 0,
    }
}

#[test]
fn a_success_in_the_future_is_not_recent() {
    let ages = [90_000, 100_000, 150_000, 161_000].map(|ended| age_at(100_000, ended));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(ages, [seconds(10), seconds(0), seconds(0), None]);
}
