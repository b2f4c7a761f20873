//! `redlock history`: shows the last runs.

use std::io::{IsTerminal, stdout};

use crate::cli::HistoryArgs;
use crate::error::{Failure, Outcome};
use crate::lock::{History, Key};
use crate::options::LockSelection;
use crate::report::{columns, histories, histories_json, latest_runs, print};
use crate::session::Context;

/// Of keys that are named every run is shown, of the others the last one.
pub fn history(args: &HistoryArgs, prefix: Option<&str>, context: &Context) -> anyhow::Result<Outcome> {
    let selection = LockSelection::of(&args.selection, prefix)?;
    let mut found = if selection.keys.is_empty() { Vec::new() } else { read(&selection.keys, context)? };
    if !selection.patterns.is_empty() {
        found.extend(read(&[], context)?.into_iter().filter(|history| selection.matches(&history.key)));
    }
    let columns = stdout().is_terminal().then(|| columns(stdout()));
    let text = match args.selection.words.is_empty() && args.selection.keys.is_empty() {
        _ if args.json => histories_json(&found),
        true => latest_runs(&found, context.colour(), columns),
        false => histories(&found, context.colour(), columns),
    };
    print(text.as_bytes()).map_err(Failure::not_printed)?;
    Ok(Outcome::SUCCESS)
}

/// The histories of these keys, or all.
pub fn read(keys: &[Key], context: &Context) -> Result<Vec<History>, Failure> {
    context.options.server.capabilities().history.map_err(Failure::configuration)?;
    context.open_store().history(keys, &context.timeout()).map_err(|error| context.explain(error))
}
