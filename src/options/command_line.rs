//! Reading the command line and the variables of options, and one line about what is wrong there.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, CommandFactory, Id, Subcommand};

use super::complaint::explain;
use super::line::{Line, WITH_KEY, is_token, shown, with_one_dash};
use super::sources::{Sources, is_off};
use crate::cli::{self, Cli, GlobalArgs};
use crate::error::{Failure, Outcome};
use crate::lock::Key;

/// The command line as it was typed: the system's copy loses the words of a job, see `job::title`.
static TYPED: LazyLock<Vec<OsString>> = LazyLock::new(|| env::args_os().collect());

/// Parses the command line. Of options that contradict each other a flag overrules a variable; a variable that is
/// empty counts as not set. The error is one of the parser, see [`answer`], or a [`Failure`].
pub fn parse() -> anyhow::Result<ArgMatches> {
    let typed = &*TYPED;
    if let Some(matches) = parse_usual(typed) {
        return Ok(matches);
    }
    let line = Line::read(typed.get(1..).unwrap_or_default(), &built());
    Ok(parse_canonical(line.canonical()?)?)
}

/// What the options of the line, and the variables, mean for another subcommand.
pub fn parse_as(subcommand: &str) -> Result<ArgMatches, Failure> {
    let (typed, root) = typed();
    let key = (typed.words.is_empty() && !typed.gives_key()).then(|| OsString::from("KEY"));
    let command = (subcommand == "run").then(|| OsString::from("true")).into_iter().collect();
    let words = typed.words.iter().cloned().chain(key).collect();
    let line = Line { subcommand: Some(subcommand.to_owned()), words, command, ..typed };
    parse_canonical(line.canonical()?).map_err(|error| explain(&error, &line, &root))
}

fn parse_canonical(mut words: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    words.insert(0, OsString::from("redlock"));
    // Help and tips name every subcommand.
    let command = || without_variables(for_help(built()), &|arg| is_empty(arg) || is_switched_off(arg));
    match command().try_get_matches_from(&words) {
        Err(error) if error.kind() == ErrorKind::ArgumentConflict => {
            let conflicts = conflicts(&built());
            let may_conflict = |arg: &Arg| conflicts.iter().flatten().any(|option| arg.get_id() == option);
            let flags = without_variables(command(), &may_conflict).try_get_matches_from(&words)?;
            let is_flag = |option: &Id| Sources::of(&flags).is_flag(option.as_str());
            let is_overruled = |arg: &Arg| {
                conflicts.iter().any(|[one, other]| {
                    (arg.get_id() == one && is_flag(other)) || (arg.get_id() == other && is_flag(one))
                })
            };
            without_variables(command(), &is_overruled).try_get_matches_from(&words)
        }
        parsed => parsed,
    }
}

/// Pairs of options that contradict each other.
pub fn conflicts(root: &Command) -> Vec<[Id; 2]> {
    let of_arg = |command: &Command, arg: &Arg| {
        let others = command.get_arg_conflicts_with(arg).into_iter();
        others.map(|other| [arg.get_id().clone(), other.get_id().clone()]).collect::<Vec<_>>()
    };
    let of_command =
        |command: &Command| command.get_arguments().flat_map(|arg| of_arg(command, arg)).collect::<Vec<_>>();
    root.get_subcommands().flat_map(of_command).collect()
}

/// The usual cases: the subcommand comes first, the key is an option or the word behind it, and the command stands behind
/// `--`. Nothing is there but this subcommand, which saves time: the options of all are copied to each subcommand.
fn parse_usual(typed: &[OsString]) -> Option<ArgMatches> {
    let is_empty = |(name, value): (OsString, OsString)| {
        value.is_empty() && name.as_encoded_bytes().starts_with(b"REDLOCK_")
    };
    if env::vars_os().any(is_empty) {
        return None;
    }
    let [program, name, words @ ..] = typed else { return None };
    let all = cli::Command::augment_subcommands(Command::new("redlock"));
    let subcommand = all.find_subcommand(name)?;
    let mut command = GlobalArgs::augment_args(Command::new("redlock")).subcommand(subcommand.clone());
    let matches = match words {
        [key, rest @ ..] if is_key(name, key) => {
            let option = OsString::from("-k");
            let words = [program, name, &option, key].into_iter().chain(rest);
            let matches = command.try_get_matches_from_mut(words).ok()?;
            // One more key: see what was meant.
            let keys = matches.subcommand()?.1.try_get_occurrences::<Key>("keys").ok().flatten();
            if keys.is_some_and(|keys| keys.count() > 1) {
                return None;
            }
            matches
        }
        _ => command.try_get_matches_from_mut(typed).ok()?,
    };
    // `--wait true`: see `Line::read`, which takes that for the key or the command.
    let waits = matches.subcommand()?.1.try_get_raw("wait").ok().flatten();
    let is_word = waits.is_some_and(|mut values| values.any(|value| value == "true" || value == "false"));
    if is_word && Sources::of(&matches).is_flag("wait") {
        return None;
    }
    let mut options = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    // With `-key=X` the parser has a key that nobody meant.
    let is_misread =
        |word: &str| word.starts_with('-') && with_one_dash(word, name.to_str(), &command).is_some();
    if options.any(is_misread) { None } else { Some(matches) }
}

fn is_key(subcommand: &OsStr, word: &OsStr) -> bool {
    WITH_KEY.iter().any(|name| subcommand == *name)
        && !word.as_encoded_bytes().starts_with(b"-")
        && !is_token(word)
}

/// The line that was typed.
fn typed() -> (Line, Command) {
    let root = built();
    (Line::read(TYPED.get(1..).unwrap_or_default(), &root), root)
}

/// The command line with all its subcommands.
pub fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// The help of the program itself is about its subcommands. What the variables contain is nobody's business.
fn for_help(root: Command) -> Command {
    let root = root.mut_subcommand("help", |help| help.hide(true));
    let root = root.mut_args(|arg| {
        let is_for_long_help = ["quiet", "verbose", "version"].iter().any(|option| arg.get_id() == option);
        if is_for_long_help { arg.hide_short_help(true) } else { arg }
    });
    let root = root.mut_args(|arg| arg.hide_env(true));
    root.mut_subcommands(|subcommand| subcommand.mut_args(|arg| arg.hide_env(true)))
}

fn is_empty(arg: &Arg) -> bool {
    arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty())
}

fn is_switched_off(arg: &Arg) -> bool {
    !arg.get_action().takes_values() && arg.get_env().is_some_and(is_off)
}

fn without_variables(command: Command, ignored: &dyn Fn(&Arg) -> bool) -> Command {
    let command = command.mut_args(|arg| if ignored(&arg) { arg.env(None) } else { arg });
    command.mut_subcommands(|subcommand| without_variables(subcommand, ignored))
}

/// Prints help or the version, or fails with what is wrong.
pub fn answer(error: anyhow::Error) -> anyhow::Result<Outcome> {
    let error = error.downcast::<clap::Error>()?;
    if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let (line, root) = typed();
        return Err(explain(&error, &line, &root).into());
    }
    match error.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::not_printed(error).into()),
        _ => Ok(Outcome::SUCCESS),
    }
}

/// What a command that cannot be started may have been meant to be: a line for the shell, or, where the key is the first
/// word, that word.
pub fn command_hint() -> String {
    let line = typed().0;
    let is_for_shell = |word: &OsString| word.as_encoded_bytes().iter().any(|byte| b" ;|&<>$".contains(byte));
    match (&line.command[..], line.words.first()) {
        ([text], _) if is_for_shell(text) => format!("; try: {}", line.with_shell().show()),
        (_, Some(key)) => format!("; the first word, {}, is the key", shown(key)),
        (_, None) => String::new(),
    }
}

/// `-c` with several words, where a file says it.
pub fn refuse_several_strings(command: &[OsString]) -> Result<(), Failure> {
    if command.len() == 1 { Ok(()) } else { Err(typed().0.refusal_of_several_strings()) }
}
