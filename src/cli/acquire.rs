//! The options of `acquire`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::examples::{ACQUIRE, first, with_exit_status};
use super::until::Until;
use super::{KeyWordArgs, LockArgs, OnLost};

/// Acquire the lock and print its owner token
///
/// The lease ends with its TTL unless `renew` extends it; `release` ends it sooner. With --while-pid a keeper in the
/// background renews it until a process ends, and then releases the lock.
///
/// With this line a script ends when it does not get the lock:
///
/// eval "$(redlock acquire -k deploy --wait --format env || echo exit $?)"
#[derive(Debug, Args)]
#[command(
    override_usage = "redlock acquire [OPTIONS] KEY",
    after_help = first(ACQUIRE),
    after_long_help = with_exit_status(ACQUIRE)
)]
pub struct AcquireArgs {
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub key_word: KeyWordArgs,
    /// Hold the lock until process PID ends ($$ in a script)
    ///
    /// A keeper in the background renews the lease until the process PID ends, or until `release`.
    #[arg(long, value_name = "PID", value_parser = pid, allow_negative_numbers = true)]
    pub while_pid: Option<i32>,
    /// Keep the lock until this time of day, as a reservation
    ///
    /// `18:00` means today, or tomorrow if it has passed; with a date write `2026-12-24 18:00` or RFC 3339. The time replaces
    /// the TTL: the reservation ends then, or with `release`. redlock does not wait for a lock that is held.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["ttl", "wait", "while_pid"])]
    pub until: Option<Until>,
    /// Say why it is reserved, for status and messages
    #[arg(long, hide_short_help = true, value_name = "TEXT", requires = "until")]
    pub reason: Option<String>,
    /// Choose what happens to PID when the lock is lost
    ///
    /// terminate sends it SIGTERM, and nothing after that.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "WHAT",
        env = "REDLOCK_ON_LOST",
        default_value = "terminate"
    )]
    pub on_lost: OnLost,
    /// Print token, env, fish (to eval), json or github
    ///
    /// The owner token, a line that a shell evaluates (env, fish), or JSON; github prints a mask and writes the lock to the environment files of GitHub Actions.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "token",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub format: Format,
    /// Write the owner token to this file, for you alone
    ///
    /// redlock does not print the token then. Nobody else can read the file.
    #[arg(long, value_name = "FILE", env = "REDLOCK_TOKEN_FILE", conflicts_with = "format")]
    pub token_file: Option<PathBuf>,
}

/// The form in which `acquire` hands the lock out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Token,
    Env,
    Fish,
    Json,
    Github,
}

fn pid(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "a pid is 1 or more; in a script its own is $$".to_owned())
}
