use super::Outcome;
use super::context::Context;
use super::failure;
use crate::cli::StatusArgs;
use crate::output::{json, print, table};

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
    print(text.as_bytes()).map_err(|error| failure::of_printing(&error))?;
    Ok(Outcome::SUCCESS)
}
