//! `--once-per`: no run so early after a success. A run looks for one while it holds the lock, and records its own before the
//! release, so two of them never both decide to start. That asks nothing of a store but its history.

use std::os::fd::AsFd;
use std::time::Duration;

use super::{Acquisition, Context, history};
use crate::clock::Deadline;
use crate::error::{Failure, Outcome};
use crate::event::Event;
use crate::job::Signals;
use crate::lock::{History, Keeper, Key, RunRecord, StoreAdmin, StoreError, Timeout};
use crate::report::names;

/// Gives the locks back, whose leases run `until` then, if a run under one of them succeeded within `period`.
pub fn check(
    period: Duration,
    acquisition: &Acquisition,
    until: Deadline,
    store: &mut dyn StoreAdmin,
    signals: &Signals,
    context: &Context,
) -> anyhow::Result<()> {
    let timeout = Timeout { until: context.timeout().until.min(until), interrupt: Some(signals.as_fd()) };
    let why = match store.history(&acquisition.keys(), &timeout) {
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

/// Records the success of a run that still holds these locks, and reads it back: a store may take an entry without an answer,
/// and on a connection that it has.
pub fn record(keeper: Keeper, keys: &[Key], keep: u8, context: &Context) -> Keeper {
    let keeper = keeper.start();
    let mut store = context.open_store();
    let _ = store.history(keys, &context.timeout());
    history::record_within(&context.timeout(), Outcome::SUCCESS, keep, store.as_mut(), context);
    let is_own = |run: &RunRecord| run.is_success() && run.pid == std::process::id();
    let has_own = |history: &History| history.runs.iter().any(is_own);
    let reason = match store.history(keys, &context.timeout()) {
        Ok(histories) if histories.iter().all(has_own) => return keeper,
        Ok(_) => "the store did not keep it".to_owned(),
        Err(error) => error.to_string(),
    };
    let reason =
        format!("the success of {} is not recorded: {reason}; --once-per starts the next run", names(keys));
    context.reporter.report(&Event::LogFailed { reason: &reason });
    keeper
}
