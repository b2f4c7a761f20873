//! `--sequence`: no run behind one with a higher number. A run looks while it holds the lock, and notes its own number before
//! anything is started, so the next holder sees it however this one ends. That asks nothing of a store but its history.

use std::os::fd::AsFd;

use super::{Acquisition, Context, history};
use crate::clock::Deadline;
use crate::error::Failure;
use crate::event::Event;
use crate::job::Signals;
use crate::lock::{History, Key, Result, RunRecord, StoreAdmin, StoreError, Timeout};

/// Gives back what was acquired, until whose end this may take, if a run under one of these keys with a higher number has
/// begun, or if the store cannot note the own one.
pub fn begin(
    number: u64,
    keys: &[Key],
    keep: u8,
    (acquisition, until): (&Acquisition, Deadline),
    store: &mut dyn StoreAdmin,
    signals: &Signals,
    context: &Context,
) -> anyhow::Result<()> {
    let timeout = Timeout { until: context.timeout().until.min(until), interrupt: Some(signals.as_fd()) };
    let later = match later(number, keys, store, &timeout) {
        Ok(None) => note(&acquisition.keys(), keep, store, &timeout, context).map(|()| None),
        found => found,
    };
    let why = match later {
        Ok(None) => return Ok(()),
        Ok(Some((key, later))) => {
            context.reporter.report(&Event::Outdated { key: &key, number, later: &later });
            Failure::Quiet(acquisition.conflict_exit_code)
        }
        // The caller takes the signal.
        Err(StoreError::Interrupted) => return Ok(()),
        Err(error) => context.explain(error),
    };
    Err(acquisition.withdraw_after(why.into(), store, &context.reporter))
}

/// The run with the highest number, if that is higher than this one.
fn later(
    number: u64,
    keys: &[Key],
    store: &mut dyn StoreAdmin,
    timeout: &Timeout,
) -> Result<Option<(Key, RunRecord)>> {
    let histories = store.history(keys, timeout)?;
    let later = histories.into_iter().find_map(|History { key, runs, .. }| {
        let highest = runs.into_iter().max_by_key(|run| run.sequence)?;
        highest.sequence.is_some_and(|other| other > number).then_some((key, highest))
    });
    Ok(later)
}

/// Notes the own number, and reads it back: a store may take an entry without an answer.
fn note(
    keys: &[Key],
    keep: u8,
    store: &mut dyn StoreAdmin,
    timeout: &Timeout,
    context: &Context,
) -> Result<()> {
    history::record_start(keep, timeout, store, context)?;
    let is_own = |run: &RunRecord| run.is_start() && run.pid == std::process::id();
    let has_own = |history: &History| history.runs.first().is_some_and(is_own);
    if keys.is_empty() || store.history(keys, timeout)?.iter().all(has_own) {
        return Ok(());
    }
    let why =
        "it did not keep the number of this run, and nothing was started; look at its memory and permissions";
    Err(StoreError::Unusable { store: context.options.server.to_string(), why: why.to_owned() })
}
