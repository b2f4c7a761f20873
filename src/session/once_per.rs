//! `--once-per`: no run so early after a success. A run looks for one while it holds the lock, and records its own before the
//! release, so the next holder sees it. That asks nothing of a store but its history. A store that does not answer in time
//! costs another run, never a lease.

use std::os::fd::AsFd;
use std::time::Duration;

use super::{Acquisition, Context, history};
use crate::clock::Deadline;
use crate::error::{Failure, Outcome};
use crate::event::Event;
use crate::job::Signals;
use crate::lock::{History, Key, RunRecord, StoreAdmin, StoreError, Timeout, unix_millis};
use crate::options::RunOptions;
use crate::report::names;

/// Gives back what was acquired, until whose end the look may take, if a run under one of these keys succeeded within `period`.
pub fn check(
    period: Duration,
    keys: &[Key],
    (acquisition, until): (&Acquisition, Deadline),
    store: &mut dyn StoreAdmin,
    signals: &Signals,
    context: &Context,
) -> anyhow::Result<()> {
    let timeout = Timeout { until: context.timeout().until.min(until), interrupt: Some(signals.as_fd()) };
    let why = match store.history(keys, &timeout) {
        Ok(histories) => {
            let is_recent = |run: &RunRecord| run.is_success() && history::ended_within(run, period);
            let recent = |History { key, runs, .. }| Some((key, runs.into_iter().find(is_recent)?));
            let Some((key, success)) = histories.into_iter().find_map(recent) else { return Ok(()) };
            context.reporter.report(&Event::AlreadyRan { key: &key, success: &success, period });
            Failure::Quiet(0)
        }
        // The caller takes the signal.
        Err(StoreError::Interrupted) => return Ok(()),
        Err(error) => context.explain(error),
    };
    Err(acquisition.withdraw_after(why.into(), store, &context.reporter))
}

/// Records the success of a run, and reads it back: a store may take an entry without an answer, and on a connection that it
/// has. False if the locks may be lost, or the store does not say: the caller records the run behind its release then.
pub fn record(acquisition: &Acquisition, options: &RunOptions, signals: &Signals, context: &Context) -> bool {
    let keys = &acquisition.keys()[..];
    // A store that hangs is not to end the lease of a job that has ended well.
    let patience = context.options.connect_timeout.min(acquisition.ttl.duration() / 4);
    let timeout = Timeout { until: Deadline::after(patience), interrupt: Some(signals.as_fd()) };
    let mut store = context.open_store();
    let is_held = |key| matches!(store.check(key, &acquisition.token, &timeout), Ok(Some(_)));
    if keys.is_empty() || !keys.iter().all(is_held) {
        return false;
    }
    let since = unix_millis();
    history::record_within(&timeout, Outcome::SUCCESS, options, store.as_mut(), context);
    let is_own = |run: &RunRecord| run.is_success() && run.pid == std::process::id() && run.ended >= since;
    let has_own = |history: &History| history.runs.iter().any(is_own);
    let reason = match store.history(keys, &timeout) {
        Ok(histories) if histories.iter().all(has_own) => return true,
        Ok(_) => "the store did not keep it".to_owned(),
        Err(error) => error.to_string(),
    };
    let reason =
        format!("the success of {} is not recorded: {reason}; --once-per starts the next run", names(keys));
    context.reporter.report(&Event::LogFailed { reason: &reason });
    true
}
