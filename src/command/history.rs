//! `redlock history`: shows the last runs.

use std::io::{IsTerminal, stdout};

use crate::cli::HistoryArgs;
use crate::error::{Failure, Outcome};
use crate::lock::History;
use crate::options::LockSelection;
use crate::report::{columns, histories, histories_json, latest_runs, print};
use crate::session::{
    Context,
    history::{no_history, read},
};

/// Without any key the last run of each lock, else every run.
pub fn history(args: &HistoryArgs, prefix: Option<&str>, context: &Context) -> anyhow::Result<Outcome> {
    let selection = LockSelection::of(&args.selection, prefix);
    let mut found = if selection.keys.is_empty() { Vec::new() } else { read(&selection.keys, context)? };
    if !selection.patterns.is_empty() {
        found.extend(read(&[], context)?.into_iter().filter(|history| selection.matches(&history.key)));
    }
    let is_recorded = |history: &History| !history.runs.is_empty() || history.skipped > 0;
    if !args.json && !found.iter().any(is_recorded) {
        let text = no_history(&selection.keys, context) + "\n";
        print(text.as_bytes()).map_err(Failure::not_printed)?;
        return Ok(Outcome::SUCCESS);
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
