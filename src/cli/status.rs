//! The options of `status`.

use clap::{Args, ValueEnum};

use super::LockSelectionArgs;
use super::examples::{STATUS, first};

/// Show holders, waiters and time left
///
/// One KEY is shown in detail; several, or all known locks, as a table. A lock of another program is shown when its KEY is
/// given.
#[derive(Debug, Args)]
#[command(override_usage = "redlock status [OPTIONS] [KEY|PATTERN]...", after_help = first(STATUS), after_long_help = STATUS)]
pub struct StatusArgs {
    #[command(flatten)]
    pub selection: LockSelectionArgs,
    /// Print text, json or prometheus
    ///
    /// Text for people, JSON (see redlock-status(1) for the fields), or how many hold the locks and wait for
    /// them now, and for how long, in Prometheus' text format.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub format: StatusFormat,
    /// Follow the locks on the whole screen
    ///
    /// Shows the locks on the whole terminal as they change, with the time left of each lease as a bar, the waiters in order,
    /// and what happened. See WATCHING in redlock-status(1) for the keys.
    #[cfg(feature = "watch")]
    #[arg(long, conflicts_with_all = ["format", "json", "is_free"])]
    pub watch: bool,
    /// Exit with 0 if all are free, with 75 if one is in use
    ///
    /// A lock is free when nobody holds it and nobody waits for it. The status is printed as well, unless -q says not to.
    #[arg(long)]
    pub is_free: bool,
    /// Print JSON, as --format json does
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// The form in which `status` shows the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    Text,
    Json,
    Prometheus,
}

impl StatusArgs {
    pub fn format(&self) -> StatusFormat {
        if self.json { StatusFormat::Json } else { self.format }
    }
}
