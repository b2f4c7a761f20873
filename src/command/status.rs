//! `redlock status`: shows holders and waiters.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

#[cfg(feature = "watch")]
use nix::errno::Errno;
#[cfg(feature = "watch")]
use nix::unistd::tcgetpgrp;

use crate::cli::{StatusArgs, StatusFormat};
use crate::error::{BUSY, Failure, Outcome};
use crate::lock::{LockStatus, Survey};
use crate::options::{LockSelection, refuse_none};
use crate::report::{Verbosity, columns, details, json, lock_metrics, print, table};
use crate::sanitize::sanitize;
use crate::session::{Context, history, report_failure, survey};
#[cfg(feature = "watch")]
use crate::watch::watch;

/// A server that cannot be seen is reported, and its failure is the exit status. Without any key these are the locks with
/// the prefix, if there is one. With `--is-free` a lock in use is an exit status, too.
pub fn status(args: &StatusArgs, prefix: Option<&str>, context: &Context) -> anyhow::Result<Outcome> {
    if args.is_free {
        refuse_none(&args.selection, "status")?;
    }
    let selection = LockSelection::of(&args.selection, prefix);
    if !selection.patterns.is_empty() {
        context.options.server.capabilities().listing.map_err(Failure::configuration)?;
    }
    #[cfg(feature = "watch")]
    if args.watch {
        check_terminal()?;
        return watch(selection, context.clone());
    }
    let mut store = context.open_store();
    let Survey { locks, hidden } = survey(&selection, store.as_mut(), context)?;
    let shows_some = !locks.is_empty();
    let is_silent = args.is_free && context.options.report.verbosity == Verbosity::Quiet;
    if !is_silent && (shows_some || hidden.is_empty()) {
        let columns = stdout().is_terminal().then(|| columns(stdout()));
        let text = match (args.format(), &locks[..]) {
            (StatusFormat::Json, _) => json(&locks),
            (StatusFormat::Prometheus, _) => lock_metrics(&locks),
            (StatusFormat::Text, []) => {
                let all = args.selection.words.is_empty() && args.selection.keys.is_empty();
                let matching = if all { "" } else { " that match" };
                sanitize(&format!("no locks{matching} are in use in {}", context.options.server)) + "\n"
            }
            (StatusFormat::Text, [lock]) if selection.is_one() => {
                let is_asked = !lock.waiters.is_empty();
                let usual =
                    is_asked.then(|| history::usual_run(&lock.key, store.as_mut(), context)).flatten();
                details(lock, Duration::ZERO, usual, columns)
            }
            (StatusFormat::Text, _) => table(&locks, context.colour(), columns),
        };
        print(text.as_bytes()).map_err(Failure::not_printed)?;
    }
    let failed = hidden.into_iter().map(|error| {
        let error = anyhow::Error::from(context.explain(error));
        report_failure(&if shows_some { error.context("this is not all") } else { error }, &context.reporter)
    });
    let answer = match args.is_free && locks.iter().any(LockStatus::is_in_use) {
        true => Outcome::Exit(BUSY),
        false => Outcome::SUCCESS,
    };
    Ok(failed.reduce(|first, _| first).unwrap_or(answer))
}

/// True if the whole screen can be drawn.
#[cfg(feature = "watch")]
fn check_terminal() -> Result<(), Failure> {
    let why = match std::env::var("TERM") {
        _ if !stdout().is_terminal() => "standard output is not one",
        _ if tcgetpgrp(stdout()) == Err(Errno::ENOTTY) => "standard output is a terminal of another session",
        Ok(name) if name != "dumb" && !name.is_empty() => return Ok(()),
        _ => "TERM does not name one that redlock can draw on",
    };
    Err(Failure::usage(format!("--watch needs a terminal, and {why}; for programs there is --json")))
}
