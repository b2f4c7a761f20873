//! The options of each subcommand, resolved once: flags over variables over files over defaults. They are checked, and
//! their paths are absolute, before anything is contacted.
//!
//! A new option stands in [`crate::cli`], with its default. A file can set it from then on.

mod caller;
pub mod command_line;
mod complaint;
mod config;
mod declared;
mod global;
mod help;
mod hook;
mod in_force;
mod inputs;
mod key_pattern;
mod label;
mod line;
mod lock;
mod lock_selection;
mod owner;
mod server_urls;
mod sources;
mod suggestion;
pub mod variables;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use self::caller::CallingProcess;
use self::complaint::refuse;
use self::config::SectionQuery;
#[cfg(any(test, fuzzing))]
pub use self::config::read_text;
pub use self::config::{Config, check_file};
pub use self::config::{PoolMember, PoolQuery};
pub use self::global::GlobalOptions;
use self::global::absolute;
use self::hook::hooks;
pub use self::hook::{HOOK, HookPoint};
pub use self::in_force::settings_in_force;
pub use self::inputs::Inputs;
pub use self::line::ReadLine;
pub use self::lock::{LockOptions, Reservation, Shown};
use self::lock::{kill_after, ttl_until};
pub use self::lock_selection::LockSelection;
pub use self::owner::OwnerOptions;
pub use self::sources::Sources;
use crate::cli::{AcquireArgs, DoctorArgs, Format, GlobalArgs, LockSelectionArgs, OnLost, RunArgs, WaitArgs};
use crate::doctor::Requirements;
use crate::error::Failure;
use crate::lock::{DurationText, HISTORY_RETENTION, Key, Mode};

pub struct RunOptions {
    /// The options that need nothing but their own value.
    pub args: RunArgs,
    pub lock: LockOptions,
    pub command: Vec<OsString>,
    /// The name that messages have for the command.
    pub name: String,
    pub kill_after: Duration,
    pub timeout: Option<Duration>,
    /// Nothing is started so early after a success.
    pub once_per: Option<Duration>,
    /// The number of runs that the store keeps in the history.
    pub history: u8,
    /// Commands for `sh -c`.
    pub hooks: Vec<(HookPoint, String)>,
}

impl RunOptions {
    pub fn resolve(mut args: RunArgs, inputs: &Inputs) -> Result<RunOptions, Failure> {
        let files = &inputs.files;
        let words = std::mem::take(&mut args.command);
        let (command, label, name) = if args.shell {
            // As in flock(1): the words after the string would be lost.
            if words.len() > 1 {
                return Err(refuse("with -c the command is one string: quote it", "run"));
            }
            let command = ["/bin/sh", "-c"].map(OsString::from).into_iter().chain(words).collect();
            (command, "sh -c".to_owned(), "sh -c".to_owned())
        } else {
            let (label, name) = (label::of_command(&words), words[0].to_string_lossy().into_owned());
            (words, label, name)
        };
        let shown = Shown {
            pid: std::process::id(),
            label,
            by_hand: false,
            reservation: None,
            sequence: args.sequence,
        };
        let lock = LockOptions::resolve(&args.lock, inputs, shown)?;
        let kill_after = kill_after(args.kill_after, lock.ttl);
        if kill_after >= lock.ttl.validity() {
            let setting = files.setting("kill-after");
            let refused = if setting.is_some() { Failure::configuration } else { Failure::usage };
            let refused = refused(format!(
                "{} {} leaves no time before the end of {} {}",
                inputs.sources.name("kill_after", setting),
                DurationText(kill_after),
                inputs.sources.name("ttl", files.setting("ttl")),
                lock.ttl
            ));
            let example = DurationText(lock.ttl.duration() / 4);
            return Err(refused.hint(format!("it must be shorter than the TTL, for example {example}")));
        }
        let once_per = once_per(&args, &lock, inputs)?;
        if args.sequence.is_some() {
            needs_history("--sequence", &lock, inputs)?;
        }
        Ok(RunOptions {
            lock,
            command,
            name,
            kill_after,
            once_per,
            timeout: args.timeout.map(|text| text.0).filter(|timeout| !timeout.is_zero()),
            history: history(&args, inputs)?,
            hooks: hooks(&args.hooks),
            args,
        })
    }
}

/// Reads the files, and the line once more with what they say about this call.
pub fn with_files(
    line: ReadLine,
    keys: &[Key],
    pool: Option<PoolQuery>,
) -> anyhow::Result<(ArgMatches, Config)> {
    let (global, sources) = (GlobalArgs::of(&line.matches)?, Sources::of(&line.matches));
    let query = SectionQuery {
        file: global.config.as_deref(),
        profile: global.profile.as_deref(),
        server: if sources.is_set("server") { &global.server } else { &[] },
        keys,
        pool,
    };
    let files = Config::load(&query, sources)?.without_overruled(sources);
    Ok((line.with_defaults(&files)?, files))
}

/// The time in which `--once-per` wants one success at most; 0 is none.
fn once_per(args: &RunArgs, lock: &LockOptions, inputs: &Inputs) -> Result<Option<Duration>, Failure> {
    let Some(period) = args.once_per.map(|text| text.0).filter(|period| !period.is_zero()) else {
        return Ok(None);
    };
    needs_history("--once-per", lock, inputs)?;
    if period > HISTORY_RETENTION {
        let why = "--once-per: a success is forgotten after 30 days; use a shorter time";
        return Err(Failure::configuration(why));
    }
    Ok(Some(period))
}

/// Fails where the runs before this one cannot be known, for an `option` that decides by them.
fn needs_history(option: &str, lock: &LockOptions, inputs: &Inputs) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::configuration(format!("{option}: {why}")));
    match inputs.global.server.capabilities().history {
        Err(why) => refuse(why),
        Ok(_) if lock.one_of => refuse("each lock has a history of its own; name one of them"),
        Ok(_) if !lock.above.is_empty() => refuse("it does not go with --tree; leave one of them out"),
        Ok(_) if lock.mode != Mode::Exclusive => {
            refuse("holders of a shared lock or a permit start at the same time; use an exclusive lock")
        }
        Ok(_) => Ok(()),
    }
}

/// The least runs that are kept with `--sequence`.
const SEQUENCE_RUNS: u8 = 10;

/// The runs to keep. A store without a history is not a mistake, unless a flag asks for one.
fn history(args: &RunArgs, inputs: &Inputs) -> Result<u8, Failure> {
    let is_needed = args.once_per.is_some_and(|text| !text.0.is_zero()) || args.sequence.is_some();
    let runs = args.history;
    // A run is noted twice: when it begins, and when it ends.
    let of_sequence = |runs: u8| runs.max(SEQUENCE_RUNS).saturating_mul(2);
    let kept = |runs| if args.sequence.is_some() { of_sequence(runs) } else { runs };
    match inputs.global.server.capabilities().history {
        Err(why) if runs > Some(0) && inputs.sources.is_flag("history") => {
            Err(Failure::configuration(format!("--history: {why}")))
        }
        Err(_) => Ok(0),
        Ok(default) => Ok(kept(runs.filter(|runs| *runs > 0 || !is_needed).unwrap_or(default))),
    }
}

pub struct AcquireOptions {
    pub lock: LockOptions,
    pub while_pid: Option<i32>,
    pub on_lost: OnLost,
    pub format: Format,
    /// Takes the token instead of standard output.
    pub token_file: Option<PathBuf>,
}

impl AcquireOptions {
    pub fn resolve(args: AcquireArgs, inputs: &Inputs) -> Result<AcquireOptions, Failure> {
        if args.while_pid.is_none() && inputs.sources.is_flag("on_lost") {
            let reason = "--on-lost needs --while-pid: without it nothing looks after the lock";
            return Err(Failure::usage(reason));
        }
        let caller = args.while_pid.map_or_else(CallingProcess::find, |pid| CallingProcess::of(pid as u32));
        let (pid, label) = match caller {
            Some(caller) => (caller.pid, label::of_command(&caller.command())),
            None => (std::process::id(), "redlock acquire".to_owned()),
        };
        let mut lock = args.lock;
        if let Some(until) = &args.until {
            // A configured wait is for other locks.
            (lock.ttl, lock.wait) = (ttl_until(until, &inputs.global.server.capabilities())?, None);
        }
        let reservation = args
            .until
            .map(|until| Reservation { until: until.unix_millis(), reason: args.reason.unwrap_or_default() });
        if (lock.one_of || lock.pool.is_some()) && (args.format == Format::Token || args.token_file.is_some())
        {
            let reason =
                "the owner token alone does not say which of the locks it is for; add --format env or json";
            return Err(Failure::usage(reason));
        }
        let shown = Shown { pid, label, by_hand: args.while_pid.is_none(), reservation, sequence: None };
        Ok(AcquireOptions {
            lock: LockOptions::resolve(&lock, inputs, shown)?,
            while_pid: args.while_pid,
            on_lost: args.on_lost,
            format: args.format,
            token_file: args.token_file.map(absolute).transpose()?,
        })
    }
}

pub struct WaitOptions {
    pub selection: LockSelection,
    pub timeout: Option<Duration>,
}

impl WaitOptions {
    pub fn resolve(args: &WaitArgs) -> Result<WaitOptions, Failure> {
        refuse_none(&args.selection, "wait")?;
        let selection = LockSelection::of(&args.selection, None);
        Ok(WaitOptions { selection, timeout: args.timeout.map(|text| text.0) })
    }
}

/// Fails without a key: that would mean every lock.
pub fn refuse_none(selection: &LockSelectionArgs, subcommand: &str) -> Result<(), Failure> {
    match selection.words.is_empty() && selection.keys.is_empty() {
        true => Err(refuse("the key is missing", subcommand)),
        false => Ok(()),
    }
}

pub fn requirements(args: &DoctorArgs, inputs: &Inputs) -> Requirements {
    Requirements {
        ttl: args.ttl,
        kill_after: kill_after(args.kill_after, args.ttl),
        replicas: args.replicas,
        attempt: inputs.global.connect_timeout,
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::cli::{Command, GlobalArgs};
    use crate::error::BUSY;
    use crate::lock::{Mode, Ttl, Wait};

    /// The options of a `run` with these flags and these lines in a configuration file.
    fn run(flags: &str, file: &str) -> anyhow::Result<RunOptions> {
        let words = format!("redlock run -k b -k a {flags} -- /bin/make all");
        let line = command_line::read(words.split_whitespace().map(OsString::from).collect())?;
        let files = Config::of_text(file)?.without_overruled(Sources::of(&line.matches));
        let matches = &line.with_defaults(&files)?;
        let (command, sources) = (Command::from_arg_matches(matches)?, Sources::of(matches));
        let global = &GlobalOptions::resolve(GlobalArgs::of(matches)?, &files, sources)?;
        match command {
            Command::Run(args) => Ok(RunOptions::resolve(args, &Inputs { sources, files, global })?),
            _ => anyhow::bail!("another subcommand"),
        }
    }

    #[test]
    fn flags_come_before_files_and_files_before_defaults() -> anyhow::Result<()> {
        let options = run("--ttl 10s", "ttl = \"20s\"\nlabel = \"nightly\"\nkill-after = 1\ntimeout = 0")?;
        assert_eq!(options.lock.ttl.to_string(), "10s");
        assert_eq!(
            (options.lock.shown.label, options.kill_after),
            ("nightly".to_owned(), Duration::from_secs(1))
        );
        assert_eq!((options.timeout, options.args.conflict_exit_code), (None, BUSY));
        let options = run("", "")?;
        assert_eq!((options.lock.shown.label.as_str(), options.name.as_str()), ("make", "/bin/make"));
        assert_eq!(options.lock.ttl, Ttl::DEFAULT);
        let keys: Vec<&str> = options.lock.keys.iter().map(Key::as_str).collect();
        assert_eq!(keys, ["a", "b"]);
        Ok(())
    }

    #[test]
    fn a_flag_undoes_what_a_file_sets() -> anyhow::Result<()> {
        assert!(matches!(run("-n", "wait = true")?.lock.patience.wait, Wait::No));
        assert!(matches!(run("-w", "wait = \"1s\"")?.lock.patience.wait, Wait::Forever));
        assert!(
            matches!(run("", "wait = 2")?.lock.patience.wait, Wait::AtMost(limit) if limit.as_secs() == 2)
        );
        assert_eq!(run("--shared", "permits = 2")?.lock.mode, Mode::Shared);
        assert!(matches!(run("-p 3", "shared = true")?.lock.mode, Mode::Semaphore(n) if n.get() == 3));
        assert_eq!(run("", "shared = true")?.lock.mode, Mode::Shared);
        Ok(())
    }

    #[test]
    fn impossible_combinations_are_refused() {
        let refused = |flags: &str| match run(flags, "server = \"local:\"") {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(refused("--ttl 4s --kill-after 5s").contains("for example 1s"));
        assert!(refused("-k a").contains("the key 'a' is given twice"));
        assert!(refused("--replicas 1").contains("local: has no replicas"));
    }
}
