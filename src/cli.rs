//! The command line: every option, once.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::Deserialize;

use crate::lock::{DurationText, Key, OwnerToken, Ttl};

/// Hold a distributed lock while a command runs
///
/// redlock acquires a lock that spans machines, starts a command, renews the lease while the command runs, and
/// releases the lock when it ends: flock(1) for a fleet. acquire, renew, check and release are the same steps
/// by hand.
#[derive(Debug, Parser)]
#[command(name = "redlock", version, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUS: &str = "\
Exit status: that of the command under `run`; 1 this token does not hold the lock, 64 usage, 69 no store
could be reached, 75 held by another (-E changes it), 77 login or permission refused, 78 configuration,
79 the lock was lost while the command ran, 124 --timeout, 126 and 127 the command cannot be executed or
found.";

// Of a command line only the subcommand that it names is built.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    Run(RunArgs),
    Acquire(AcquireArgs),
    Renew(RenewArgs),
    Check(CheckArgs),
    Release(ReleaseArgs),
    Status(StatusArgs),
    Break(BreakArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
}

// In a help text brackets are no links.
#[allow(rustdoc::broken_intra_doc_links)]
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://,
    /// redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port],
    /// zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a
    /// quorum of independent servers [default: redis://127.0.0.1:6379]
    #[arg(
        short = 'S',
        long,
        global = true,
        value_name = "URL",
        env = "REDLOCK_SERVER",
        hide_env_values = true
    )]
    pub server: Vec<String>,
    /// Read this configuration file instead of ~/.config/redlock/config.toml
    #[arg(long, global = true, value_name = "FILE", env = "REDLOCK_CONFIG")]
    pub config: Option<PathBuf>,
    /// Log in to the store as this user
    #[arg(long, global = true, value_name = "NAME", env = "REDLOCK_USER")]
    pub user: Option<String>,
    /// Log in with the password in the first line of this file, which others must not be able to read
    #[arg(long, global = true, value_name = "FILE", env = "REDLOCK_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Log in to the Sentinels with the password in the first line of this file
    #[arg(long, global = true, value_name = "FILE", env = "REDLOCK_SENTINEL_PASSWORD_FILE")]
    pub sentinel_password_file: Option<PathBuf>,
    /// With rediss://, trust certificates signed by these (PEM) instead of the system's
    #[arg(long, global = true, value_name = "FILE", env = "REDLOCK_TLS_CA")]
    pub tls_ca: Option<PathBuf>,
    /// With rediss://, the client certificate (PEM) for a server that asks for one
    #[arg(long, global = true, value_name = "FILE", env = "REDLOCK_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, global = true, value_name = "FILE", env = "REDLOCK_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Wait at most this long for an answer of the store [default: 5s]
    #[arg(long, global = true, value_name = "DURATION", env = "REDLOCK_CONNECT_TIMEOUT")]
    pub connect_timeout: Option<DurationText>,
    /// Print only errors; a busy lock is not an error
    #[arg(short, long, global = true, env = "REDLOCK_QUIET", value_parser = FalseyValueParser::new(), conflicts_with = "verbose", overrides_with = "quiet")]
    pub quiet: bool,
    /// Print what is done
    #[arg(short, long, global = true, env = "REDLOCK_VERBOSE", value_parser = FalseyValueParser::new(), overrides_with = "verbose")]
    pub verbose: bool,
    /// Colour the output [default: auto]
    #[arg(long, global = true, value_name = "WHEN", env = "REDLOCK_COLOR")]
    pub color: Option<Color>,
}

/// When the output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Args)]
pub struct LockArgs {
    /// The lock's name: 1 to 512 bytes without control characters; the first word is the same. Given more than
    /// once, all the locks are acquired, in one fixed order, or none is kept
    #[arg(short, long = "key", value_name = "KEY", required = true)]
    pub keys: Vec<Key>,
    /// How long the lease lives without renewal: 500ms, 30s, 5m, 1h30m; a bare number is seconds [default: 30s]
    #[arg(short, long, value_name = "DURATION", env = "REDLOCK_TTL")]
    pub ttl: Option<Ttl>,
    /// Wait in line when the lock is held: for ever, or at most this long
    #[arg(short, long, value_name = "DURATION", num_args = 0..=1, env = "REDLOCK_WAIT")]
    pub wait: Option<Option<DurationText>>,
    /// Do not wait; undoes a configured wait
    #[arg(short, long, conflicts_with = "wait", overrides_with = "no_wait", aliases = ["nonblock", "nb"])]
    pub no_wait: bool,
    /// Acquire the lock for oneself alone, as without this option; undoes a configured --shared or --permits
    #[arg(short = 'x', long, hide = true, conflicts_with_all = ["shared", "permits"], overrides_with = "exclusive")]
    pub exclusive: bool,
    /// Acquire a reader's lock: many may hold it at once, or one without --shared
    #[arg(short, long, env = "REDLOCK_SHARED", value_parser = FalseyValueParser::new(), conflicts_with = "permits")]
    pub shared: bool,
    /// Acquire one of N permits: at most N hold the lock at once
    #[arg(short, long, value_name = "N", env = "REDLOCK_PERMITS", value_parser = permits, allow_negative_numbers = true)]
    pub permits: Option<NonZeroU32>,
    /// What others see in `status` and in wait messages [default: the name of the program, and of the script that it
    /// runs]
    #[arg(long, value_name = "TEXT", env = "REDLOCK_LABEL")]
    pub label: Option<String>,
    /// Keep the lock at least this long after it was acquired, even if it is released sooner
    #[arg(long, value_name = "DURATION", env = "REDLOCK_MIN_HOLD")]
    pub min_hold: Option<DurationText>,
    /// Count the lock as acquired only when N replicas of the Redis server have it, too [default: 0]
    #[arg(long, value_name = "N", env = "REDLOCK_REPLICAS", value_parser = replicas, allow_negative_numbers = true)]
    pub replicas: Option<u8>,
}

pub fn permits(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "the number of permits is 1 or more, for example --permits 3".to_owned())
}

pub fn replicas(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "the number of replicas is 0 to 255, for example --replicas 1".to_owned())
}

pub fn exit_status(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "an exit status is 0 to 255".to_owned())
}

fn pid(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "a pid is 1 or more; in a script its own is $$".to_owned())
}

/// Hold the lock while COMMAND runs
///
/// Acquires the lock, starts COMMAND, renews the lease while it runs, and releases the lock when it ends.
/// Standard streams, terminal, signals and exit status are as if COMMAND had been started alone. Every
/// process of the job is dead before the lease can pass to another holder.
///
/// COMMAND finds REDLOCK_KEY, REDLOCK_TOKEN (the owner token) and REDLOCK_FENCE (the fencing token) in its
/// environment; of several locks the key and the fencing token have a line for each.
///
/// The key is the first word, or stands behind -k. Then `--` may be left out: what follows the first word of COMMAND
/// is COMMAND's, its options too.
#[derive(Debug, Args)]
#[command(
    override_usage = "redlock run [OPTIONS] KEY [--] COMMAND [ARG]...\n       redlock run [OPTIONS] -k KEY [--] COMMAND [ARG]..."
)]
pub struct RunArgs {
    #[command(flatten)]
    pub lock: LockArgs,
    /// COMMAND is one string, in one word, run by `sh -c`
    #[arg(short = 'c', long)]
    pub shell: bool,
    /// Exit status when the lock is held by another [default: 75]
    #[arg(short = 'E', long, value_name = "N", env = "REDLOCK_CONFLICT_EXIT_CODE", value_parser = exit_status, allow_negative_numbers = true)]
    pub conflict_exit_code: Option<u8>,
    /// What happens to the command when the lock is lost [default: terminate]
    #[arg(long, value_name = "WHAT", env = "REDLOCK_ON_LOST")]
    pub on_lost: Option<OnLost>,
    /// From SIGTERM to SIGKILL [default: a quarter of the TTL, at most 5s]
    #[arg(long, value_name = "DURATION", env = "REDLOCK_KILL_AFTER")]
    pub kill_after: Option<DurationText>,
    /// Stop the command after this long, as timeout(1) does
    #[arg(long, value_name = "DURATION", env = "REDLOCK_TIMEOUT")]
    pub timeout: Option<DurationText>,
    /// Sleep a random part of this before acquiring the lock
    #[arg(long, value_name = "DURATION", env = "REDLOCK_SPLAY")]
    pub splay: Option<DurationText>,
    /// What to do with processes that COMMAND left behind when it ended [default: release, or kill when a signal killed COMMAND]
    #[arg(long, value_name = "WHAT", env = "REDLOCK_LEFTOVERS")]
    pub leftovers: Option<Leftovers>,
    /// What to run
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What becomes of a job whose lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLost {
    /// Stop it before another can hold the lock
    #[default]
    Terminate,
    /// Let it run on; `run` exits with 79 in the end
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

/// Acquire the lock and print its owner token
///
/// The lease runs until its TTL ends, `renew` extends it, or `release` ends it. With --while-pid a keeper in the
/// background renews it until a process ends, and then releases the lock.
///
/// A script acquires the lock, or ends, with the line
///
/// eval "$(redlock acquire -k deploy --wait --format env || echo exit $?)"
#[derive(Debug, Args)]
#[command(override_usage = "redlock acquire [OPTIONS] KEY\n       redlock acquire [OPTIONS] -k KEY...")]
pub struct AcquireArgs {
    #[command(flatten)]
    pub lock: LockArgs,
    /// Keep the lock until the process PID ends, in a script $$, or until `release`
    #[arg(long, value_name = "PID", value_parser = pid, allow_negative_numbers = true)]
    pub while_pid: Option<i32>,
    /// What happens to PID when the lock is lost [default: terminate]
    #[arg(long, value_name = "WHAT", env = "REDLOCK_ON_LOST")]
    pub on_lost: Option<OnLost>,
    /// What to print: the owner token, a line that a shell evaluates (env, fish), or JSON; github prints a mask and
    /// writes the lock to the environment files of GitHub Actions
    #[arg(long, value_name = "FORMAT", default_value = "token")]
    pub format: Format,
    /// Write the owner token to this file, readable by you alone, instead of printing it
    #[arg(long, value_name = "FILE", env = "REDLOCK_TOKEN_FILE", conflicts_with = "format")]
    pub token_file: Option<PathBuf>,
}

/// How `acquire` hands the lock out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Token,
    Env,
    Fish,
    Json,
    Github,
}

#[derive(Debug, Args)]
pub struct OwnerArgs {
    /// The lock's name; the first word is the same. Given more than once, of locks that have one owner token
    #[arg(
        short,
        long = "key",
        value_name = "KEY",
        env = "REDLOCK_KEY",
        required = true,
        value_delimiter = '\n'
    )]
    pub keys: Vec<Key>,
    /// The owner token that `acquire` printed
    #[arg(long, value_name = "TOKEN", env = "REDLOCK_TOKEN", hide_env_values = true)]
    pub token: Option<OwnerToken>,
    /// The file that `acquire --token-file` wrote
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Extend the lease
///
/// A lease that has longer to go than the TTL keeps its end. Exits with 1 when the token does not hold the lock any more.
#[derive(Debug, Args)]
#[command(override_usage = "redlock renew [OPTIONS] [KEY]\n       redlock renew [OPTIONS] -k KEY...")]
pub struct RenewArgs {
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// How long the lease lives from now on [default: 30s]
    #[arg(short, long, value_name = "DURATION", env = "REDLOCK_TTL")]
    pub ttl: Option<Ttl>,
}

/// Ask whether the token still holds the lock
///
/// Exits with 0 when it does, for at least --for longer, and with 1 when it does not.
#[derive(Debug, Args)]
#[command(override_usage = "redlock check [OPTIONS] [KEY]\n       redlock check [OPTIONS] -k KEY...")]
pub struct CheckArgs {
    #[command(flatten)]
    pub owner: OwnerArgs,
    /// The lease has to live at least this much longer
    #[arg(long = "for", value_name = "DURATION", env = "REDLOCK_FOR")]
    pub at_least: Option<DurationText>,
}

/// Release the lock
///
/// Exits with 1 when the token does not hold the lock.
#[derive(Debug, Args)]
#[command(override_usage = "redlock release [OPTIONS] [KEY]\n       redlock release [OPTIONS] -k KEY...")]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub owner: OwnerArgs,
}

/// Show holders, waiters and time left
///
/// Without KEY all locks that redlock knows. A lock of another program is shown when its KEY is given.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The locks to show
    #[arg(value_name = "KEY")]
    pub words: Vec<Key>,
    /// The same, as an option
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<Key>,
    /// Print JSON: see redlock-status(1) for the fields
    #[arg(long)]
    pub json: bool,
}

impl StatusArgs {
    /// Those of the words and of the options.
    pub fn all_keys(&self) -> Vec<Key> {
        [&self.words[..], &self.keys].concat()
    }
}

/// Take a lock away from its holder
///
/// A redlock that holds the lock learns of it at its next renewal, stops its job and then releases the lock; if
/// it does not, the lock is free when its lease ends. Breaking it once more frees it at once. A lock of another
/// program is freed at once.
#[derive(Debug, Args)]
#[command(override_usage = "redlock break [OPTIONS] KEY\n       redlock break [OPTIONS] -k KEY")]
pub struct BreakArgs {
    /// The lock's name; the first word is the same
    #[arg(short, long, value_name = "KEY")]
    pub key: Key,
    /// Break the lock only if this owner token holds it
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<OwnerToken>,
    /// Do not ask
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub yes: bool,
}

/// Find out whether the store is fit to hold locks
///
/// Looks at every server, acquires and releases a lock of its own there, and says what was found and what to
/// change. A line is `ok`, `unknown` (it could not be seen), `warning` or `bad`. Exits with 1 when something is bad.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON: see redlock-doctor(1) for the fields
    #[arg(long)]
    pub json: bool,
    /// The TTL that is in use [default: 30s]
    #[arg(short, long, value_name = "DURATION", env = "REDLOCK_TTL")]
    pub ttl: Option<Ttl>,
    /// The time from SIGTERM to SIGKILL that is in use [default: a quarter of the TTL, at most 5s]
    #[arg(long, value_name = "DURATION", env = "REDLOCK_KILL_AFTER")]
    pub kill_after: Option<DurationText>,
    /// How many replicas must have a lock [default: 0]
    #[arg(long, value_name = "N", env = "REDLOCK_REPLICAS", value_parser = replicas, allow_negative_numbers = true)]
    pub replicas: Option<u8>,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    pub shell: Shell,
}
