//! The options of `wait`.

use clap::Args;

use super::LockSelectionArgs;
use super::examples::{WAIT, first};
use crate::lock::DurationText;

/// Wait until a lock is free, and take nothing
///
/// A lock is free when nobody holds it and nobody waits for it in its queue; all KEYs have to be free at the same moment.
/// Somebody else may take the lock right after that: to be the next holder, use `run --wait` or `acquire --wait`.
#[derive(Debug, Args)]
#[command(override_usage = "redlock wait [OPTIONS] KEY...", after_help = first(WAIT), after_long_help = WAIT)]
pub struct WaitArgs {
    #[command(flatten)]
    pub selection: LockSelectionArgs,
    /// Stop waiting after this long, with 75
    ///
    /// Without it redlock waits for ever. It retries a store that cannot be reached until the time is up, then exits with 69.
    #[arg(id = "wait_timeout", long = "timeout", value_name = "DURATION")]
    pub timeout: Option<DurationText>,
}
