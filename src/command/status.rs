use crate::cli::StatusArgs;
use crate::error;
use crate::error::Outcome;
use crate::lock::Survey;
use crate::options::Context;
use crate::report::{json, print, table};

/// Shows holders and waiters. What cannot be seen is said, and the exit status tells it from all there is.
pub fn status(args: &StatusArgs, context: &Context) -> anyhow::Result<Outcome> {
    let survey = context.open_store().survey(&args.keys, &context.patience());
    let Survey { mut locks, hidden } = survey.map_err(|error| context.explain(error))?;
    if args.keys.is_empty() {
        locks.retain(|lock| !lock.holders.is_empty() || !lock.waiters.is_empty());
    }
    let shows_some = !locks.is_empty();
    if shows_some || hidden.is_empty() {
        let text = if args.json { json(&locks) } else { table(&locks, context.colour()) };
        print(text.as_bytes()).map_err(|error| error::of_printing(&error))?;
    }
    let failed = hidden.into_iter().map(|error| {
        let error = context.explain(error);
        error::report(&if shows_some { error.context("this is not all") } else { error })
    });
    // The first says how it ends.
    Ok(failed.reduce(|first, _| first).unwrap_or(Outcome::SUCCESS))
}
