//! The state of selected locks, as a store has it.

use super::Context;
use crate::error::Failure;
use crate::lock::{Key, Result, StoreAdmin, Survey, Timeout};
use crate::options::LockSelection;

/// The locks with these keys, free ones too, and those in use that match a pattern.
pub fn survey(
    selection: &LockSelection,
    store: &mut dyn StoreAdmin,
    context: &Context,
) -> Result<Survey, Failure> {
    refuse_patterns(selection, context)?;
    survey_within(selection, store, || context.timeout()).map_err(|error| context.explain(error))
}

/// Fails for patterns where the store cannot list its locks.
pub fn refuse_patterns(selection: &LockSelection, context: &Context) -> Result<(), Failure> {
    match selection.patterns.is_empty() {
        true => Ok(()),
        false => context.options.server.capabilities().listing.map_err(Failure::configuration),
    }
}

/// As [`survey`], with this timeout for each of its two questions.
pub fn survey_within<'a>(
    selection: &LockSelection,
    store: &mut dyn StoreAdmin,
    timeout: impl Fn() -> Timeout<'a>,
) -> Result<Survey> {
    let mut ask = |keys: &[Key]| store.survey(keys, &timeout());
    let mut survey = if selection.keys.is_empty() { Survey::default() } else { ask(&selection.keys)? };
    if !selection.patterns.is_empty() {
        let Survey { locks, hidden } = ask(&[])?;
        survey
            .locks
            .extend(locks.into_iter().filter(|lock| lock.is_in_use() && selection.matches(&lock.key)));
        survey.hidden.extend(hidden);
    }
    Ok(survey)
}
