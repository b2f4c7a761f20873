//! Reading the command line and the variables of options, and one line about what is wrong there.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory};
use uuid::Uuid;

use crate::cli::Cli;
use crate::error::{Failure, Outcome};

/// Options that contradict each other, see `conflicts_with` in [`crate::cli`].
const CONFLICTS: [[&str; 2]; 6] = [
    ["quiet", "verbose"],
    ["no_wait", "wait"],
    ["shared", "permits"],
    ["exclusive", "shared"],
    ["exclusive", "permits"],
    ["format", "token_file"],
];

/// What other lock commands call a subcommand.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("lock", "acquire"),
    ("unlock", "release"),
    ("exec", "run"),
    ("list", "status"),
    ("ls", "status"),
    ("show", "status"),
];

/// Parses the command line. Of options that contradict each other a flag overrules a variable; a variable that is
/// empty counts as not set.
pub fn parse() -> Result<ArgMatches, clap::Error> {
    if let Some(matches) = parse_deferred() {
        return Ok(matches);
    }
    // Help and tips name every subcommand.
    let command = || without_variables(built(), &is_empty);
    match command().try_get_matches() {
        Err(error) if error.kind() == ErrorKind::ArgumentConflict => {
            let may_conflict = |arg: &Arg| CONFLICTS.iter().flatten().any(|option| arg.get_id() == option);
            let flags = without_variables(command(), &may_conflict).try_get_matches()?;
            let is_flag = |option: &str| Sources::of(&flags).is_flag(option);
            let is_overruled = |arg: &Arg| {
                CONFLICTS.iter().any(|[one, other]| {
                    (arg.get_id() == one && is_flag(other)) || (arg.get_id() == other && is_flag(one))
                })
            };
            without_variables(command(), &is_overruled).try_get_matches()
        }
        parsed => parsed,
    }
}

/// The usual case: only the subcommand that is named is built, which saves time.
fn parse_deferred() -> Option<ArgMatches> {
    let is_empty = |(name, value): (OsString, OsString)| {
        value.is_empty() && name.as_encoded_bytes().starts_with(b"REDLOCK_")
    };
    if env::vars_os().any(is_empty) { None } else { Cli::command().try_get_matches().ok() }
}

fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn is_empty(arg: &Arg) -> bool {
    arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty())
}

fn without_variables(command: Command, ignored: &dyn Fn(&Arg) -> bool) -> Command {
    let command = command.mut_args(|arg| if ignored(&arg) { arg.env(None) } else { arg });
    command.mut_subcommands(|subcommand| without_variables(subcommand, ignored))
}

/// Where the values of a subcommand's options come from.
#[derive(Clone, Copy)]
pub struct Sources<'a>(Option<&'a ArgMatches>);

impl Sources<'_> {
    pub fn of(matches: &ArgMatches) -> Sources<'_> {
        Sources(matches.subcommand().map(|(_, matches)| matches))
    }

    /// Given on the command line. For clap a variable is as good as a flag.
    pub fn is_flag(self, option: &str) -> bool {
        self.source(option) == Some(ValueSource::CommandLine)
    }

    /// The value of a switch, if a flag or a variable sets it.
    pub fn switch(self, option: &str, value: bool) -> Option<bool> {
        let source = self.source(option);
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)).then_some(value)
    }

    fn source(self, option: &str) -> Option<ValueSource> {
        // Not every subcommand has the option.
        let matches = self.0.filter(|matches| matches.try_contains_id(option).is_ok())?;
        matches.value_source(option)
    }
}

/// Prints help or the version, or fails with what is wrong.
pub fn answer(error: clap::Error) -> anyhow::Result<Outcome> {
    if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Err(explain(error).into());
    }
    match error.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::not_printed(error).into()),
        _ => Ok(Outcome::SUCCESS),
    }
}

/// One line that says what is wrong and what would be right.
fn explain(mut error: clap::Error) -> Failure {
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    if argument.is_some_and(|argument| argument.starts_with("--token ")) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".to_owned()));
    }
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return Failure::usage(
            "there is no subcommand; try 'redlock run --key KEY -- COMMAND', or 'redlock --help'",
        );
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((other, ours)) = OTHER_NAMES.iter().find(|(other, _)| other == word)
    {
        return Failure::usage(format!("there is no subcommand '{other}'; use 'redlock {ours}'"));
    }
    let text = error.render().to_string();
    // The error stands before the first empty line, tips behind it.
    let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut line = one_line(what.trim_start_matches("error: "));
    for tip in rest.lines().map(str::trim).filter_map(|line| line.strip_prefix("tip: ")) {
        line = format!("{line}; {}", one_line(tip));
    }
    if error.kind() == ErrorKind::MissingRequiredArgument {
        line += "; for example: redlock run --key KEY -- COMMAND";
    }
    Failure::usage(line + "; see 'redlock --help'")
}

/// `text` in one line. An owner token that was given in the wrong place is not shown.
fn one_line(text: &str) -> String {
    let is_token = |word: &str| Uuid::try_parse(word.trim_matches('\'')).is_ok();
    let words = text.split_whitespace().map(|word| if is_token(word) { "'…'" } else { word });
    words.collect::<Vec<_>>().join(" ")
}
