//! `redlock status`: shows holders and waiters.

use std::io::{IsTerminal, stdout};

use crate::cli::{StatusArgs, StatusFormat};
use crate::error::{Failure, Outcome};
use crate::lock::{Key, Survey};
use crate::options::LockSelection;
use crate::report::{columns, details, json, lock_metrics, print, table};
use crate::session::{Context, report_failure};

/// A server that cannot be seen is reported, and its failure is the exit status. Without any key these are the locks with
/// the prefix, if there is one.
pub fn status(args: &StatusArgs, prefix: Option<&str>, context: &Context) -> anyhow::Result<Outcome> {
    let selection = LockSelection::of(&args.selection, prefix)?;
    let Survey { locks, hidden } = survey(&selection, context)?;
    let shows_some = !locks.is_empty();
    if shows_some || hidden.is_empty() {
        let columns = stdout().is_terminal().then(|| columns(stdout()));
        let text = match (args.format(), &locks[..]) {
            (StatusFormat::Json, _) => json(&locks),
            (StatusFormat::Prometheus, _) => lock_metrics(&locks),
            (StatusFormat::Text, [lock]) if selection.is_one() => details(lock, columns),
            (StatusFormat::Text, _) => table(&locks, context.colour(), columns),
        };
        print(text.as_bytes()).map_err(Failure::not_printed)?;
    }
    let failed = hidden.into_iter().map(|error| {
        let error = anyhow::Error::from(context.explain(error));
        report_failure(&if shows_some { error.context("this is not all") } else { error }, &context.reporter)
    });
    Ok(failed.reduce(|first, _| first).unwrap_or(Outcome::SUCCESS))
}

/// The locks with these keys, free ones too, and those in use that match a pattern.
fn survey(selection: &LockSelection, context: &Context) -> Result<Survey, Failure> {
    let mut store = context.open_store();
    let mut ask =
        |keys: &[Key]| store.survey(keys, &context.timeout()).map_err(|error| context.explain(error));
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
