//! `redlock completions`: prints a completion script, or the names for which such a script asks.

use std::time::Duration;

use crate::cli::{CompletionsArgs, GlobalArgs, ListedNames};
use crate::completions::script;
use crate::error::{Failure, Outcome};
use crate::options::{Config, GlobalOptions, SectionQuery, Sources};
use crate::report::{Reporter, print};
use crate::sanitize::sanitize;
use crate::session::Context;

/// For the answer of the store: somebody waits at the keyboard.
const PATIENCE: Duration = Duration::from_millis(150);

pub fn completions(args: &CompletionsArgs, global: GlobalArgs, sources: Sources) -> anyhow::Result<Outcome> {
    let file = global.config.as_deref();
    let text = match (args.shell, args.list) {
        (Some(shell), _) => script(shell),
        (None, Some(ListedNames::Servers)) => lines(Config::servers(file, sources)?),
        (None, Some(ListedNames::Profiles)) => lines(Config::profiles(file, sources)?),
        (None, Some(ListedNames::Keys)) => lines(keys(global, sources)?),
        (None, None) => String::new(),
    };
    print(text.as_bytes()).map_err(Failure::not_printed)?;
    Ok(Outcome::SUCCESS)
}

fn lines(names: Vec<String>) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// The locks in use that a terminal shows as they are; none where the store does not answer.
fn keys(global: GlobalArgs, sources: Sources) -> anyhow::Result<Vec<String>> {
    let query = SectionQuery {
        file: global.config.as_deref(),
        profile: global.profile.as_deref(),
        server: &global.server,
        keys: &[],
    };
    let files = Config::load(&query, sources)?;
    let options = GlobalOptions::resolve(global, &files, sources)?;
    let connect_timeout = options.connect_timeout.min(PATIENCE);
    let context = Context::new(GlobalOptions { connect_timeout, ..options }, Reporter::default());
    let survey = context.open_store().survey(&[], &context.timeout()).unwrap_or_default();
    let keys = survey.locks.iter().filter(|lock| lock.is_in_use()).map(|lock| lock.key.as_str());
    // One with a dash would be taken for an option.
    let is_plain = |key: &&str| sanitize(key) == *key && !key.starts_with('-');
    Ok(keys.filter(is_plain).map(str::to_owned).collect())
}
