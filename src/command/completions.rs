//! `redlock completions`: prints a completion script, or the names for which such a script asks.

use std::time::Duration;

use crate::cli::{CompletionsArgs, GlobalArgs, ListedNames};
use crate::completions::script;
use crate::error::{Failure, Outcome};
use crate::options::{Config, GlobalOptions, ReadLine, Sources, with_files};
use crate::report::{Reporter, print};
use crate::sanitize::sanitize;
use crate::session::Context;

/// For the answer of the store: somebody waits at the keyboard.
const PATIENCE: Duration = Duration::from_millis(150);

pub fn completions(args: &CompletionsArgs, line: ReadLine) -> anyhow::Result<Outcome> {
    let file = GlobalArgs::of(&line.matches)?.config;
    let sources = Sources::of(&line.matches);
    let text = match (args.shell, args.list) {
        (Some(shell), _) => script(shell),
        (None, Some(ListedNames::Servers)) => lines(Config::servers(file.as_deref(), sources)?),
        (None, Some(ListedNames::Profiles)) => lines(Config::profiles(file.as_deref(), sources)?),
        (None, Some(ListedNames::Pools)) => lines(Config::pools(file.as_deref(), sources)?),
        (None, Some(ListedNames::Keys)) => lines(keys(line)?),
        (None, None) => String::new(),
    };
    print(text.as_bytes()).map_err(Failure::not_printed)?;
    Ok(Outcome::SUCCESS)
}

fn lines(names: Vec<String>) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// The locks in use that a terminal shows as they are; none where the store does not answer.
fn keys(line: ReadLine) -> anyhow::Result<Vec<String>> {
    let (matches, files) = with_files(line, &[], None)?;
    let options = GlobalOptions::resolve(GlobalArgs::of(&matches)?, &files, Sources::of(&matches))?;
    let connect_timeout = options.connect_timeout.min(PATIENCE);
    let context = Context::new(GlobalOptions { connect_timeout, ..options }, Reporter::default());
    let survey = context.open_store().survey(&[], &context.timeout()).unwrap_or_default();
    let keys = survey.locks.iter().filter(|lock| lock.is_in_use()).map(|lock| lock.key.as_str());
    // One with a dash would be taken for an option.
    let is_plain = |key: &&str| sanitize(key) == *key && !key.starts_with('-');
    Ok(keys.filter(is_plain).map(str::to_owned).collect())
}
