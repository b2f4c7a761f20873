//! `redlock status`: shows holders and waiters.

use std::io::{IsTerminal, stdout};

use glob::Pattern;

use crate::cli::StatusArgs;
use crate::error::{Failure, Outcome};
use crate::lock::{Key, Survey};
use crate::report::{columns, details, json, print, table};
use crate::session::{Context, report_failure};

/// A server that cannot be seen is reported, and its failure is the exit status.
pub fn status(args: &StatusArgs, context: &Context) -> anyhow::Result<Outcome> {
    let selection = Selection::of(args)?;
    let survey = context.open_store().survey(selection.keys(), &context.timeout());
    let Survey { mut locks, hidden } = survey.map_err(|error| context.explain(error))?;
    locks.retain(|lock| selection.has(&lock.key, lock.holders.is_empty() && lock.waiters.is_empty()));
    let shows_some = !locks.is_empty();
    if shows_some || hidden.is_empty() {
        let columns = stdout().is_terminal().then(|| columns(stdout()));
        let text = match &locks[..] {
            _ if args.json => json(&locks),
            [lock] if selection.is_one() => details(lock, columns),
            _ => table(&locks, context.colour(), columns),
        };
        print(text.as_bytes()).map_err(Failure::not_printed)?;
    }
    let failed = hidden.into_iter().map(|error| {
        let error = anyhow::Error::from(context.explain(error));
        report_failure(&if shows_some { error.context("this is not all") } else { error }, &context.reporter)
    });
    Ok(failed.reduce(|first, _| first).unwrap_or(Outcome::SUCCESS))
}

/// Which locks are shown.
enum Selection {
    /// These, free ones too.
    Keys(Vec<Key>),
    /// Those in use that match one of these, or all where there is none.
    Matching(Vec<Pattern>),
}

impl Selection {
    fn of(args: &StatusArgs) -> Result<Selection, Failure> {
        let is_pattern = |key: &&Key| key.as_str().contains(['*', '?']);
        if args.words.iter().all(|word| !is_pattern(&word))
            && !(args.words.is_empty() && args.keys.is_empty())
        {
            return Ok(Selection::Keys([&args.words[..], &args.keys].concat()));
        }
        let words = args.words.iter().map(|word| word.as_str().to_owned());
        let exactly = args.keys.iter().map(|key| Pattern::escape(key.as_str()));
        let patterns = words.chain(exactly).map(|text| {
            Pattern::new(&text)
                .map_err(|error| Failure::usage(format!("'{text}' is no pattern: {}", error.msg)))
        });
        Ok(Selection::Matching(patterns.collect::<Result<_, _>>()?))
    }

    /// What the store is asked for: all that it has for a pattern.
    fn keys(&self) -> &[Key] {
        match self {
            Selection::Keys(keys) => keys,
            Selection::Matching(_) => &[],
        }
    }

    fn has(&self, key: &Key, is_free: bool) -> bool {
        match self {
            Selection::Keys(_) => true,
            Selection::Matching(patterns) => {
                !is_free && (patterns.is_empty() || patterns.iter().any(|one| one.matches(key.as_str())))
            }
        }
    }

    /// Whether it is about one lock.
    fn is_one(&self) -> bool {
        matches!(self, Selection::Keys(keys) if keys.len() == 1)
    }
}
