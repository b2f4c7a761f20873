//! The options of `run`.

use std::ffi::OsString;

use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;

use super::LockArgs;
use super::examples::{RUN, with_exit_status};
use crate::lock::DurationText;

/// Hold the lock while COMMAND runs
///
/// Acquires the lock, starts COMMAND, renews the lease while it runs, and releases the lock when it ends.
/// Standard streams, terminal, signals and exit status are as if COMMAND had been started alone. Every
/// process of the job is dead before the lease can pass to another holder.
///
/// COMMAND finds REDLOCK_KEY, REDLOCK_TOKEN (the owner token) and REDLOCK_FENCE (the fencing token) in its
/// environment; of several locks the key and the fencing token have a line for each.
///
/// Options come before COMMAND. The first word is the key, unless -k gave it; `--` may stand before COMMAND. What follows
/// the first word of COMMAND is COMMAND's, its options too.
#[derive(Debug, Args)]
#[command(
    override_usage = "redlock run [OPTIONS] KEY [--] COMMAND [ARG]...",
    after_help = RUN,
    after_long_help = with_exit_status(RUN)
)]
pub struct RunArgs {
    #[command(flatten)]
    pub lock: LockArgs,
    /// Run COMMAND, one quoted argument, with `sh -c`
    #[arg(short = 'c', long)]
    pub shell: bool,
    /// Exit status when the lock is busy [default: 75]
    ///
    /// The exit status when the lock is held by another, or the wait ran out. With 0 a cron job
    /// succeeds when another host has the lock.
    #[arg(short = 'E', long, value_name = "N", env = "REDLOCK_CONFLICT_EXIT_CODE", value_parser = exit_status, allow_negative_numbers = true)]
    pub conflict_exit_code: Option<u8>,
    /// Stop COMMAND after this long, as timeout(1) does
    #[arg(long, value_name = "DURATION", env = "REDLOCK_TIMEOUT")]
    pub timeout: Option<DurationText>,
    /// What happens to the command when the lock is lost [default: terminate]
    ///
    /// terminate stops the whole job before another can hold the lock. Either way the exit status is 79.
    #[arg(long, hide_short_help = true, value_name = "WHAT", env = "REDLOCK_ON_LOST")]
    pub on_lost: Option<OnLost>,
    /// Time between SIGTERM and SIGKILL [default: a quarter of the TTL, at most 5s]
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_KILL_AFTER")]
    pub kill_after: Option<DurationText>,
    /// Sleep a random part of this before acquiring the lock
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_SPLAY")]
    pub splay: Option<DurationText>,
    /// What to do with processes that COMMAND left behind when it ended [default: release, or kill when a signal killed COMMAND]
    #[arg(long, hide_short_help = true, value_name = "WHAT", env = "REDLOCK_LEFTOVERS")]
    pub leftovers: Option<Leftovers>,
    /// Number of runs to keep in the lock's history [default: 20 on local:, else 0]
    ///
    /// The store keeps them for 30 days, with about 250 bytes each, for `redlock history` and `check --ran-within`.
    #[arg(long, hide_short_help = true, value_name = "N", env = "REDLOCK_HISTORY", value_parser = history, allow_negative_numbers = true)]
    pub history: Option<u8>,
    #[command(flatten)]
    pub hooks: HookArgs,
    /// What to run
    #[arg(id = "rest", trailing_var_arg = true, hide_short_help = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Commands for `sh -c`. An empty one disables a configured one.
#[derive(Debug, Args)]
pub struct HookArgs {
    /// Run CMD when the wait for the lock begins
    ///
    /// CMD is one string, for `sh -c`, and finds in its environment what happened; see HOOKS in redlock-run(1). An
    /// empty CMD disables a configured hook.
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_WAIT")]
    pub on_wait: Option<String>,
    /// Run CMD beside the command, once that has started under the lock
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_ACQUIRE")]
    pub on_acquire: Option<String>,
    /// Run CMD when the lock was lost while the command ran
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_LOST_RUN")]
    pub on_lost_run: Option<String>,
    /// Run CMD when the lock was released
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_RELEASE")]
    pub on_release: Option<String>,
}

pub fn history(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "a history has 0 to 255 runs, for example --history 50".to_owned())
}

pub fn exit_status(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "an exit status is 0 to 255".to_owned())
}
/// What becomes of a job whose lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLost {
    /// Stop it
    #[default]
    Terminate,
    /// Let it go on
    Continue,
}

/// What becomes of processes that the command left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leftovers {
    /// Release the lock while they run, with one warning
    #[default]
    Release,
    /// Hold the lock until the last of them has ended
    Wait,
    /// Stop them, then release the lock
    Kill,
}
