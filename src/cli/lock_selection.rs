//! Which locks `status` and `history` show.

use clap::Args;

use crate::lock::Key;

#[derive(Debug, Args)]
pub struct LockSelectionArgs {
    /// The locks to show; in a pattern * stands for any characters, ? for one
    #[arg(value_name = "KEY")]
    pub words: Vec<Key>,
    /// The lock of exactly this name
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<Key>,
}
