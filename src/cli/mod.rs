//! The command line: every option, once.

mod acquire;
mod examples;
mod global;
mod history;
mod lock;
mod lock_selection;
mod owner;
mod pool;
mod resize;
mod run;
mod status;
mod until;
mod version;
mod wait;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Arg, ArgAction, Args, Parser, Subcommand, ValueEnum};

pub use self::acquire::{AcquireArgs, Format};
use self::examples::{BREAK, COMPLETIONS, CONFIG, DOCTOR, REDLOCK, first, with_exit_status};

pub use self::global::{Color, GlobalArgs, LogFormat, switch};
pub use self::history::HistoryArgs;
pub use self::lock::LockArgs;
use self::lock::replicas;
pub use self::lock_selection::LockSelectionArgs;
pub use self::owner::{CheckArgs, OwnerArgs, ReleaseArgs, RenewArgs};
pub use self::pool::PoolProperty;
pub use self::resize::ResizeArgs;
pub use self::run::{HookArgs, Leftovers, OnLost, RunArgs};
pub use self::status::{StatusArgs, StatusFormat};
pub use self::until::Until;
use self::version::DETAILS;
pub use self::wait::WaitArgs;
use crate::lock::{DurationText, Key, OwnerToken, Ttl};

/// Hold a distributed lock while a command runs
///
/// redlock acquires a lock that spans machines, starts a command, renews the lease while the command runs, and
/// releases the lock when it ends: flock(1) for a fleet. acquire, renew, check and release are the same steps
/// by hand.
#[derive(Debug, Parser)]
#[command(
    name = "redlock",
    version = DETAILS.as_str(),
    max_term_width = 100,
    override_usage = "redlock SUBCOMMAND [OPTIONS]",
    after_help = first(REDLOCK),
    after_long_help = with_exit_status(REDLOCK)
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

// Only the subcommand that the line names is built.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    Run(RunArgs),
    Acquire(AcquireArgs),
    Renew(RenewArgs),
    Check(CheckArgs),
    Release(ReleaseArgs),
    Status(StatusArgs),
    Wait(WaitArgs),
    History(HistoryArgs),
    Break(BreakArgs),
    Resize(ResizeArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
}

/// The subcommands as the help of the program groups them.
pub const GROUPS: [(&str, &[&str]); 4] = [
    ("Run a command", &["run"]),
    ("By hand", &["acquire", "renew", "check", "release", "break", "resize"]),
    ("Look", &["status", "wait", "history"]),
    ("Set up", &["doctor", "config", "completions"]),
];

impl Command {
    /// The options of a lock that is to be acquired.
    pub fn lock_mut(&mut self) -> Option<&mut LockArgs> {
        match self {
            Command::Run(RunArgs { lock, .. }) | Command::Acquire(AcquireArgs { lock, .. }) => Some(lock),
            _ => None,
        }
    }

    /// The keys on the command line; for status, wait and history they may be patterns.
    pub fn keys_mut(&mut self) -> Vec<&mut Key> {
        match self {
            Command::Run(RunArgs { lock, .. }) | Command::Acquire(AcquireArgs { lock, .. }) => {
                lock.keys.iter_mut().collect()
            }
            Command::Renew(RenewArgs { owner, .. })
            | Command::Check(CheckArgs { owner, .. })
            | Command::Release(ReleaseArgs { owner }) => owner.keys.iter_mut().collect(),
            Command::Status(StatusArgs { selection, .. })
            | Command::Wait(WaitArgs { selection, .. })
            | Command::History(HistoryArgs { selection, .. }) => {
                selection.words.iter_mut().chain(&mut selection.keys).collect()
            }
            Command::Break(args) => vec![&mut args.key],
            Command::Resize(args) => vec![&mut args.key],
            Command::Config(args) => args.key.iter_mut().collect(),
            Command::Doctor(_) | Command::Completions(_) => Vec::new(),
        }
    }
}

/// The options of one call, or of the files themselves: a file does not set them.
const OF_ONE_CALL: [&str; 5] = ["keys", "token", "token_file", "config", "profile"];

/// The options that a configuration file may set, in the order of the help; last those without a variable.
pub fn settings() -> &'static [Arg] {
    static SETTINGS: LazyLock<Vec<Arg>> = LazyLock::new(|| {
        let command = GlobalArgs::augment_args(clap::Command::new("redlock"));
        let command = CheckArgs::augment_args(RunArgs::augment_args(command));
        let is_setting = |arg: &&Arg| arg.get_env().is_some() || arg.get_id() == "shell";
        let is_of_one_call = |arg: &Arg| OF_ONE_CALL.iter().any(|id| arg.get_id() == id);
        let settings = command.get_arguments().filter(is_setting).filter(|arg| !is_of_one_call(arg));
        let mut settings: Vec<Arg> = settings.cloned().collect();
        // Both subcommands have some of them.
        let mut seen = HashSet::new();
        settings.retain(|arg| seen.insert(arg.get_id().clone()));
        settings.sort_by_key(|arg| arg.get_env().is_none());
        settings
    });
    &SETTINGS
}

/// Take a lock away from its holder
///
/// A redlock that holds the lock learns of it at its next renewal, stops its job and then releases the lock. If
/// it does not, the lock is free when its lease ends. Breaking it once more frees it at once: do that only when the
/// job is dead, as another can start beside it.
///
/// redlock frees a lock of another program at once. It does the same for a lock acquired by hand if all its holders ran on this
/// host and have ended. If the lock was broken or changed hands before you answered, redlock leaves it alone.
#[derive(Debug, Args)]
#[command(override_usage = "redlock break [OPTIONS] KEY", after_help = first(BREAK), after_long_help = BREAK)]
pub struct BreakArgs {
    /// Name the lock, here or as the first word
    #[arg(id = "keys", short, long = "key", value_name = "KEY", required = false)]
    pub key: Key,
    #[command(flatten)]
    pub key_word: KeyWordArgs,
    /// Break the lock only if this owner token holds it
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<OwnerToken>,
    /// Say why, for the holder and status, beside your name
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Break the lock without asking
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub yes: bool,
}

/// Find out whether the store is fit to hold locks
///
/// Looks at every server, acquires and releases a lock of its own there, and says what was found and what to
/// change. A line is `ok`, `unknown` (it could not be seen), `warning` or `bad`. Exits with 1 when something is bad.
#[derive(Debug, Args)]
#[command(override_usage = "redlock doctor [OPTIONS]", after_help = first(DOCTOR), after_long_help = DOCTOR)]
pub struct DoctorArgs {
    /// Print JSON: see redlock-doctor(1) for the fields
    #[arg(long)]
    pub json: bool,
    /// Share the file of local: with this group of users first
    #[arg(long, value_name = "GROUP")]
    pub share: Option<String>,
    /// Print the SQL script that makes the schema in PostgreSQL
    #[arg(long, action = ArgAction::SetTrue)]
    pub sql: bool,
    /// Run that script in the database of --server first
    #[arg(long, action = ArgAction::SetTrue, conflicts_with = "sql")]
    pub setup: bool,
    /// Judge the store for this TTL
    #[arg(short, long, value_name = "DURATION", env = "REDLOCK_TTL", default_value = "30s")]
    pub ttl: Ttl,
    /// Judge it for this time from SIGTERM to SIGKILL [default: a quarter of the TTL, at most 5s]
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_KILL_AFTER")]
    pub kill_after: Option<DurationText>,
    /// Require locks on N replicas
    #[arg(long, value_name = "N", env = "REDLOCK_REPLICAS", default_value = "0", value_parser = replicas, allow_negative_numbers = true)]
    pub replicas: u8,
}

/// Show the settings in force, and where each comes from
///
/// A setting comes from a flag, a variable, a line of a configuration file, or the default. With --check redlock checks a
/// configuration file, and exits with 78 if something in it is wrong.
#[derive(Debug, Args)]
#[command(override_usage = "redlock config [OPTIONS] [KEY]", after_help = first(CONFIG), after_long_help = CONFIG)]
pub struct ConfigArgs {
    /// Show the settings for this key, here or as the first word
    #[arg(id = "keys", short, long = "key", value_name = "KEY")]
    pub key: Option<Key>,
    #[command(flatten)]
    pub key_word: KeyWordArgs,
    /// Check this file, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    pub check: Option<PathBuf>,
}

/// The key as a word: `options::line` moves it to `--key`.
#[derive(Debug, Args)]
pub struct KeyWordArgs {
    #[arg(id = "rest", hide = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(override_usage = "redlock completions SHELL", after_help = first(COMPLETIONS), after_long_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// Print the script for this shell
    #[arg(required_unless_present = "list")]
    pub shell: Option<Shell>,
    // The scripts call it.
    #[arg(long, hide = true, value_name = "WHAT", conflicts_with = "shell")]
    pub list: Option<ListedNames>,
}

/// The names that a completion script asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListedNames {
    /// The keys of the locks in use.
    Keys,
    /// The servers in the configuration files.
    Servers,
    Profiles,
    Pools,
}

/// The shells whose words redlock completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    pub fn names() -> Vec<String> {
        let values = Shell::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_owned()).collect()
    }
}
