//! The options of `resize`.

use std::num::NonZeroU32;

use clap::Args;

use super::KeyWordArgs;
use super::examples::{RESIZE, first};
use super::lock::permits;
use crate::lock::Key;

/// Set the number of permits of a lock in use
///
/// More permits go to the first waiters at once. With fewer, nobody is let in until enough holders have left; nobody is
/// stopped. The new number also applies to runs that already wait. A run that wants more permits than that fails with 78.
///
/// The number lasts until nobody holds the lock or waits for it. Until then a run with another --permits fails with 78: give
/// new runs the new number. Exits with 1 when the lock is not in use. etcd, ZooKeeper, a quorum and Memcached refuse it (78).
#[derive(Debug, Args)]
#[command(override_usage = "redlock resize KEY --permits N", after_help = first(RESIZE), after_long_help = RESIZE)]
pub struct ResizeArgs {
    /// Name the lock, here or as the first word
    #[arg(id = "keys", short, long = "key", value_name = "KEY", required = false)]
    pub key: Key,
    #[command(flatten)]
    pub key_word: KeyWordArgs,
    /// Set the number of permits
    #[arg(id = "new_permits", short = 'p', long = "permits", value_name = "N", required = true, value_parser = permits, allow_negative_numbers = true)]
    pub permits: NonZeroU32,
}
