//! The options of `history`.

use clap::Args;

use super::LockSelectionArgs;
use super::examples::{HISTORY, first};

/// Show the last runs: when, where, and how they ended
///
/// The latest run first. Without a KEY, the last run of every lock.
#[derive(Debug, Args)]
#[command(override_usage = "redlock history [OPTIONS] [KEY|PATTERN]...", after_help = first(HISTORY), after_long_help = HISTORY)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub selection: LockSelectionArgs,
    /// Print JSON: see redlock-history(1) for the fields
    #[arg(long)]
    pub json: bool,
}
