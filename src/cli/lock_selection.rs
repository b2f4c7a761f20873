//! The locks that `status` and `history` show.

use clap::Args;

use crate::lock::Key;

#[derive(Debug, Args)]
pub struct LockSelectionArgs {
    /// Choose these locks; * matches any text, ? one character
    #[arg(value_name = "KEY")]
    pub words: Vec<Key>,
    /// Choose the lock of exactly this name
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<Key>,
}
