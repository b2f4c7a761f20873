//! `--sequence`: no run behind one with a higher number. A run looks while it holds the locks, and notes its own number before
//! anything is started, so the next holder sees it however this one ends. That asks nothing of a store but its history.

use std::os::fd::AsFd;

use super::{Acquisition, Context, history};
use crate::clock::Deadline;
use crate::error::{Failure, UNREACHABLE};
use crate::event::Event;
use crate::job::Signals;
use crate::lock::{History, Key, Lease, Result, RunRecord, StoreAdmin, StoreError, Timeout};

/// Gives back what was acquired, until whose end this may take, if a run under one of these leases with a higher number has
/// begun, or if the store cannot note the own one.
pub fn begin(
    number: u64,
    leases: &[Lease],
    keep: u8,
    (acquisition, until): (&Acquisition, Deadline),
    store: &mut dyn StoreAdmin,
    signals: &mut Signals,
    context: &Context,
) -> anyhow::Result<()> {
    let timeout = Timeout { until: context.timeout().until.min(until), interrupt: Some(signals.as_fd()) };
    let keys: Vec<Key> = leases.iter().map(|lease| lease.request.key.clone()).collect();
    let later = match later(number, &keys, store, &timeout) {
        Ok(None) => note(&keys, leases, keep, store, &timeout, context).map(|()| None),
        found => found,
    };
    let why = match later {
        Ok(None) => return Ok(()),
        Ok(Some((key, later))) => {
            context.reporter.report(&Event::Outdated { key: &key, number, later: &later });
            Failure::Quiet(acquisition.conflict_exit_code)
        }
        Err(StoreError::Interrupted) => {
            signals.take().map_or(Failure::Quiet(UNREACHABLE), |arrived| Failure::Signal(arrived.signal))
        }
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
    // A store may have the last success alone. A run that ended before its command began leaves its number, too.
    let has_begun = |run: &RunRecord| run.is_start() || run.is_success();
    let later = histories.into_iter().find_map(|History { key, runs, .. }| {
        let highest = runs.into_iter().filter(has_begun).max_by_key(|run| run.sequence)?;
        highest.sequence.is_some_and(|other| other > number).then_some((key, highest))
    });
    Ok(later)
}

/// Notes the own number, and reads it back: a store may take an entry without an answer.
fn note(
    keys: &[Key],
    leases: &[Lease],
    keep: u8,
    store: &mut dyn StoreAdmin,
    timeout: &Timeout,
    context: &Context,
) -> Result<()> {
    let starts = history::record_starts(leases, keep, timeout, store, context)?;
    let is = |own: &RunRecord, run: &RunRecord| {
        run.is_start() && (run.sequence, run.fence, run.asked) == (own.sequence, own.fence, own.asked)
    };
    let histories = store.history(keys, timeout)?;
    let has = |(key, own): (&Key, &RunRecord)| {
        histories.iter().any(|one| one.key == *key && one.runs.iter().any(|run| is(own, run)))
    };
    if keys.iter().zip(&starts).all(has) {
        return Ok(());
    }
    let why =
        "it did not keep the number of this run, and nothing was started; look at its memory and permissions";
    Err(StoreError::Unusable { store: context.options.server.to_string(), why: why.to_owned() })
}
