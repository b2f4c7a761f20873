//! `redlock status`: shows holders and waiters.

use std::io::{IsTerminal, stdout};

use crate::cli::StatusArgs;
use crate::error::{Failure, Outcome};
use crate::lock::Survey;
use crate::report::{columns, json, print, table};
use crate::session::{Context, report_failure};

/// A server that cannot be seen is reported, and its failure is the exit status.
pub fn status(args: &StatusArgs, context: &Context) -> anyhow::Result<Outcome> {
    let keys = args.all_keys();
    let survey = context.open_store().survey(&keys, &context.timeout());
    let Survey { mut locks, hidden } = survey.map_err(|error| context.explain(error))?;
    if keys.is_empty() {
        locks.retain(|lock| !lock.holders.is_empty() || !lock.waiters.is_empty());
    }
    let shows_some = !locks.is_empty();
    if shows_some || hidden.is_empty() {
        let columns = stdout().is_terminal().then(|| columns(stdout()));
        let text = if args.json { json(&locks) } else { table(&locks, context.colour(), columns) };
        print(text.as_bytes()).map_err(Failure::not_printed)?;
    }
    let failed = hidden.into_iter().map(|error| {
        let error = anyhow::Error::from(context.explain(error));
        report_failure(&if shows_some { error.context("this is not all") } else { error }, &context.reporter)
    });
    Ok(failed.reduce(|first, _| first).unwrap_or(Outcome::SUCCESS))
}
