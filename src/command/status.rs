//! `redlock status`: shows holders and waiters.

use std::io::{IsTerminal, stdout};

use glob::Pattern;

use crate::cli::{StatusArgs, StatusFormat};
use crate::error::{Failure, Outcome};
use crate::lock::{Key, LockStatus, Survey};
use crate::report::{columns, details, json, lock_metrics, print, table};
use crate::session::{Context, report_failure};

/// A server that cannot be seen is reported, and its failure is the exit status. Without any key these are the locks with
/// the prefix, if there is one.
pub fn status(args: &StatusArgs, prefix: Option<&str>, context: &Context) -> anyhow::Result<Outcome> {
    let selection = Selection::of(args, prefix.unwrap_or_default())?;
    let Survey { locks, hidden } = selection.survey(context)?;
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

/// Which locks are shown: those with these keys, free ones too, and those in use that match a pattern.
struct Selection {
    keys: Vec<Key>,
    patterns: Vec<Pattern>,
}

impl Selection {
    /// Without any word, all locks in use that begin with `prefix`.
    fn of(args: &StatusArgs, prefix: &str) -> Result<Selection, Failure> {
        let mut selection = Selection { keys: args.keys.clone(), patterns: Vec::new() };
        for word in &args.words {
            let text = word.as_str();
            if !text.contains(['*', '?']) {
                selection.keys.extend((!selection.keys.contains(word)).then(|| word.clone()));
                continue;
            }
            let refused = |error: glob::PatternError| format!("'{text}' is no pattern: {}", error.msg);
            selection.patterns.push(Pattern::new(text).map_err(|error| Failure::usage(refused(error)))?);
        }
        if selection.keys.is_empty() && selection.patterns.is_empty() {
            selection.patterns.extend(Pattern::new(&format!("{}*", Pattern::escape(prefix))));
        }
        Ok(selection)
    }

    /// Whether it is about one lock.
    fn is_one(&self) -> bool {
        self.keys.len() == 1 && self.patterns.is_empty()
    }

    fn survey(&self, context: &Context) -> Result<Survey, Failure> {
        let mut store = context.open_store();
        let mut ask =
            |keys: &[Key]| store.survey(keys, &context.timeout()).map_err(|error| context.explain(error));
        let mut survey = if self.keys.is_empty() { Survey::default() } else { ask(&self.keys)? };
        if !self.patterns.is_empty() {
            let Survey { locks, hidden } = ask(&[])?;
            survey.locks.extend(locks.into_iter().filter(|lock| self.matches(lock)));
            survey.hidden.extend(hidden);
        }
        Ok(survey)
    }

    /// Whether it is in use, matches a pattern, and is not shown anyway.
    fn matches(&self, lock: &LockStatus) -> bool {
        let is_in_use = !lock.holders.is_empty() || !lock.waiters.is_empty();
        is_in_use
            && !self.keys.contains(&lock.key)
            && self.patterns.iter().any(|pattern| pattern.matches(lock.key.as_str()))
    }
}
