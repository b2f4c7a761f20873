//! The locks that `status` and `history` show.

use clap::Args;

use crate::lock::Key;

#[derive(Debug, Args)]
pub struct LockSelectionArgs {
    /// Show these locks; in a pattern * is any text, ? a character
    #[arg(value_name = "KEY")]
    pub words: Vec<Key>,
    /// Show the lock of exactly this name
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<Key>,
}
