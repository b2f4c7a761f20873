use std::io::{self, Write};

use super::Outcome;
use super::context::Context;
use crate::cli::StatusArgs;
use crate::output::{json, table};

/// Shows holders and waiters.
pub fn status(args: &StatusArgs, context: &Context) -> anyhow::Result<Outcome> {
    let mut locks = context
        .open_store()
        .status(&args.keys, &context.patience())
        .map_err(|error| context.explain(error))?;
    if args.keys.is_empty() {
        locks.retain(|lock| !lock.holders.is_empty() || !lock.waiters.is_empty());
    }
    let text = if args.json { json(&locks) } else { table(&locks, context.colour()) };
    // A reader that went away (`status | head`) has seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(Outcome::SUCCESS)
}
