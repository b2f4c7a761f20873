//! The options of the commands that need an owner token: `renew`, `check` and `release`.

use std::path::PathBuf;

use clap::Args;

use super::KeyWordArgs;
use super::examples::{CHECK, RELEASE, RENEW, first};
use crate::lock::{DurationText, Key, OwnerToken, Ttl};

#[derive(Debug, Args)]
pub struct OwnerArgs {
    /// Name the lock, here or as the first word
    ///
    /// Repeat -k for several locks that share one owner token.
    #[arg(short, long = "key", value_name = "KEY", env = "REDLOCK_KEY", value_delimiter = '\n')]
    pub keys: Vec<Key>,
    #[command(flatten)]
    pub key_word: KeyWordArgs,
    /// Add the keys above KEY, as `acquire --tree` did
    #[arg(long, hide_short_help = true, env = "REDLOCK_TREE", value_parser = super::switch)]
    pub tree: bool,
    /// Use the owner token that `acquire` printed
    ///
    /// Every user of the host can read a command line: REDLOCK_TOKEN and --token-file keep the token to yourself.
    #[arg(long, value_name = "TOKEN", env = "REDLOCK_TOKEN", hide_env_values = true)]
    pub token: Option<OwnerToken>,
    /// Read the owner token from what `acquire --token-file` wrote
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Extend the lease
///
/// Never shortens a lease. Exits with 1 when the token does not hold the lock any more.
#[derive(Debug, Args)]
#[command(override_usage = "redlock renew [OPTIONS] [KEY]", after_help = first(RENEW), after_long_help = RENEW)]
pub struct RenewArgs {
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// Set how long the lease lives from now on
    #[arg(short, long, value_name = "DURATION", env = "REDLOCK_TTL", default_value = "30s")]
    pub ttl: Ttl,
}

/// Ask whether a token holds the lock, or a job ran lately
///
/// Exits with 0 when the token holds the lock, for at least --for longer, and with 1 when it does not. With --ran-within no
/// token is needed: exits with 0 if a recent run under the lock succeeded, else with 1.
#[derive(Debug, Args)]
#[command(override_usage = "redlock check [OPTIONS] [KEY]", after_help = first(CHECK), after_long_help = CHECK)]
pub struct CheckArgs {
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// Require that the lease lives at least this much longer
    #[arg(id = "for", long, value_name = "DURATION", env = "REDLOCK_FOR")]
    pub at_least: Option<DurationText>,
    /// Require a successful run that ended within this time
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["token", "token_file", "for"])]
    pub ran_within: Option<DurationText>,
}

/// Release the lock
///
/// Exits with 1 when the token does not hold the lock. In the job of a `redlock run` that holds it this is refused with 64: run
/// releases the lock when the command ends.
#[derive(Debug, Args)]
#[command(override_usage = "redlock release [OPTIONS] [KEY]", after_help = first(RELEASE), after_long_help = RELEASE)]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub owner: OwnerArgs,
}
