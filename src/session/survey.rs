//! What a store knows of selected locks.

use super::Context;
use crate::error::Failure;
use crate::lock::{Key, StoreAdmin, Survey};
use crate::options::LockSelection;

/// The locks with these keys, free ones too, and those in use that match a pattern.
pub fn survey(
    selection: &LockSelection,
    store: &mut dyn StoreAdmin,
    context: &Context,
) -> Result<Survey, Failure> {
    let mut ask =
        |keys: &[Key]| store.survey(keys, &context.timeout()).map_err(|error| context.explain(error));
    let mut survey = if selection.keys.is_empty() { Survey::default() } else { ask(&selection.keys)? };
    if !selection.patterns.is_empty() {
        context.options.server.capabilities().listing.map_err(Failure::configuration)?;
        let Survey { locks, hidden } = ask(&[])?;
        survey
            .locks
            .extend(locks.into_iter().filter(|lock| lock.is_in_use() && selection.matches(&lock.key)));
        survey.hidden.extend(hidden);
    }
    Ok(survey)
}
