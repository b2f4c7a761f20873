//! The options of `run`.

use std::ffi::OsString;

use clap::{Args, ValueEnum, ValueHint};

use super::LockArgs;
use super::examples::{RUN, first, with_exit_status};
use crate::lock::DurationText;

/// Hold the lock while COMMAND runs
///
/// Acquires the lock, starts COMMAND, renews the lease while it runs, and releases the lock when it ends.
/// Standard streams, terminal, signals and exit status are as if COMMAND had been started alone. Every
/// process of the job is dead before the lease can pass to another holder.
///
/// COMMAND finds REDLOCK_KEY, REDLOCK_TOKEN (the owner token), REDLOCK_FENCE (the fencing token) and, with --permits,
/// REDLOCK_PERMIT in its environment; with --pool also REDLOCK_POOL_*. With several locks, each variable except
/// REDLOCK_TOKEN has one line for each lock.
///
/// Options come before COMMAND. The first word is the key, unless -k or --pool gave it; `--` may come before COMMAND. All
/// words after the first word of COMMAND belong to COMMAND, options too.
#[derive(Debug, Args)]
#[command(
    override_usage = "redlock run [OPTIONS] KEY [--] COMMAND [ARG]...",
    after_help = first(RUN),
    after_long_help = with_exit_status(RUN)
)]
pub struct RunArgs {
    #[command(flatten)]
    pub lock: LockArgs,
    /// Run COMMAND, one quoted argument, with `sh -c`
    #[arg(short = 'c', long)]
    pub shell: bool,
    /// Exit with N when the lock is busy
    ///
    /// The lock is busy when another holds it, when the wait ran out, or when --supersede or --sequence puts a later run
    /// first. With 0 a cron job succeeds when another host has the lock.
    #[arg(short = 'E', long, value_name = "N", env = "REDLOCK_CONFLICT_EXIT_CODE", default_value = "75", value_parser = exit_status, allow_negative_numbers = true)]
    pub conflict_exit_code: u8,
    /// Run COMMAND only if no run succeeded within this time
    ///
    /// Otherwise redlock says when a run of this key last succeeded, and exits with 0. It looks while it holds the
    /// lock, and a run with this option records its success before it releases the lock. For a nightly job use somewhat less
    /// than a day: 20h. It needs an exclusive lock and a store that keeps a history. The most is 30 days; 0 runs COMMAND every
    /// time.
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_ONCE_PER")]
    pub once_per: Option<DurationText>,
    /// Run COMMAND only if no run with a higher N has begun
    ///
    /// --sequence "$CI_PIPELINE_IID" never deploys an older version over a newer one. If a later run has begun, redlock names it
    /// and exits with 75. The same N may run again. Each run leaves its N in the history, so every run of the key needs this
    /// option. It needs an exclusive lock and a store that keeps a history.
    #[arg(long, hide_short_help = true, value_name = "N", env = "REDLOCK_SEQUENCE", value_parser = sequence, allow_negative_numbers = true)]
    pub sequence: Option<u64>,
    /// Stop COMMAND after this long, as timeout(1) does
    #[arg(long, value_name = "DURATION", env = "REDLOCK_TIMEOUT")]
    pub timeout: Option<DurationText>,
    /// Choose what happens to COMMAND when the lock is lost
    ///
    /// terminate stops the whole job before another can hold the lock. Either way the exit status is 79.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "WHAT",
        env = "REDLOCK_ON_LOST",
        default_value = "terminate"
    )]
    pub on_lost: OnLost,
    /// Wait this long between SIGTERM and SIGKILL [default: a quarter of the TTL, at most 5s]
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_KILL_AFTER")]
    pub kill_after: Option<DurationText>,
    /// Sleep a random part of this before acquiring the lock
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_SPLAY")]
    pub splay: Option<DurationText>,
    /// Choose what happens to processes that COMMAND left behind [default: release, or kill when a signal killed COMMAND]
    #[arg(long, hide_short_help = true, value_name = "WHAT", env = "REDLOCK_LEFTOVERS")]
    pub leftovers: Option<Leftovers>,
    /// Keep this many runs in the lock's history [default: 20 on local: and PostgreSQL, else 0]
    ///
    /// The store keeps them for 30 days, with about 250 bytes each, for `redlock history` and `check --ran-within`.
    #[arg(long, hide_short_help = true, value_name = "N", env = "REDLOCK_HISTORY", value_parser = history, allow_negative_numbers = true)]
    pub history: Option<u8>,
    #[command(flatten)]
    pub hooks: HookArgs,
    /// Run this program with these arguments
    #[arg(id = "rest", trailing_var_arg = true, hide_short_help = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Commands for `sh -c`. An empty one disables a configured one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Hooks")]
pub struct HookArgs {
    /// Run CMD when the wait for the lock begins
    ///
    /// CMD is one string, for `sh -c`, and finds in its environment what happened; see HOOKS in redlock-run(1). An
    /// empty CMD disables a configured hook.
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_WAIT")]
    pub on_wait: Option<String>,
    /// Run CMD beside COMMAND, when that has started
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_ACQUIRE")]
    pub on_acquire: Option<String>,
    /// Run CMD when the lock was lost while COMMAND ran
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_LOST_RUN")]
    pub on_lost_run: Option<String>,
    /// Run CMD when the lock was released
    #[arg(long, hide_short_help = true, value_name = "CMD", env = "REDLOCK_ON_RELEASE")]
    pub on_release: Option<String>,
}

fn history(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "a history has 0 to 255 runs, for example --history 50".to_owned())
}

fn sequence(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "give a whole number, such as that of a pipeline: --sequence 42".to_owned())
}

fn exit_status(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "an exit status is 0 to 255".to_owned())
}
/// The fate of a job whose lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnLost {
    /// Stop it
    #[default]
    Terminate,
    /// Let it go on
    Continue,
}

/// The fate of processes that the command left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Leftovers {
    /// Release the lock while they run, with one warning
    #[default]
    Release,
    /// Hold the lock until the last of them has ended
    Wait,
    /// Stop them, then release the lock
    Kill,
}
