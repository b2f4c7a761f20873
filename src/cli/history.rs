//! The options of `history`.

use clap::Args;

use super::examples::HISTORY;
use crate::lock::Key;

/// Show the last runs: when, where, and how they ended
///
/// The latest run first. Without a KEY, the last run of every lock.
#[derive(Debug, Args)]
#[command(override_usage = "redlock history [OPTIONS] [KEY|PATTERN]...", after_help = HISTORY)]
pub struct HistoryArgs {
    /// The locks whose runs are shown; in a pattern * stands for any characters, ? for one
    #[arg(value_name = "KEY")]
    pub words: Vec<Key>,
    /// The lock of exactly this name
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<Key>,
    /// Print JSON: see redlock-history(1) for the fields
    #[arg(long)]
    pub json: bool,
}
