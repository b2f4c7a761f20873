//! What failed, in one line, and with which exit status.

use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use thiserror::Error;
use uuid::Uuid;

use crate::lock::{StoreError, Unsupported};
use crate::options::ConfigError;
use crate::report::Messages;

pub const NOT_HELD: u8 = 1;
pub const NOT_FIT: u8 = 1;
pub const NOT_PRINTED: u8 = 1;
pub const USAGE: u8 = 64;
pub const UNREACHABLE: u8 = 69;
pub const BUG: u8 = 70;
pub const BUSY: u8 = 75;
pub const DENIED: u8 = 77;
pub const CONFIGURATION: u8 = 78;
pub const LOST: u8 = 79;
pub const TIMED_OUT: u8 = 124;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// How redlock ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exit(u8),
    /// By this signal, as the command did.
    Signal(i32),
}

impl Outcome {
    pub const SUCCESS: Outcome = Outcome::Exit(0);

    /// Ends the process so.
    pub fn end(self) -> ! {
        match self {
            Outcome::Exit(code) => std::process::exit(code.into()),
            Outcome::Signal(signal) => crate::job::die_of(signal),
        }
    }
}

/// The command line asks for something that cannot be.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Usage(String);

impl Usage {
    pub fn new(why: impl Into<String>) -> Usage {
        Usage(why.into())
    }
}

/// A failure with the exit status that it calls for.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct Failed {
    pub code: u8,
    pub why: String,
}

/// Prints the error and says how to end.
pub fn report(error: &anyhow::Error) -> Outcome {
    Messages::default().error(format_args!("{error:#}"));
    Outcome::Exit(code(error))
}

/// The system lacks what redlock needs to do `what`.
pub fn cannot(what: &str) -> impl FnOnce(io::Error) -> anyhow::Error {
    move |error| Failed { code: UNREACHABLE, why: format!("cannot {what}: {error}") }.into()
}

/// What was asked for could not be printed.
pub fn of_printing(error: &io::Error) -> anyhow::Error {
    Failed { code: NOT_PRINTED, why: format!("cannot write to standard output: {error}") }.into()
}

/// The exit status that an error means.
pub fn code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(failed) = cause.downcast_ref::<Failed>() {
            return failed.code;
        }
        if cause.is::<Usage>() {
            return USAGE;
        }
        if cause.is::<ConfigError>() || cause.is::<Unsupported>() {
            return CONFIGURATION;
        }
        if let Some(error) = cause.downcast_ref::<StoreError>() {
            return match error {
                StoreError::Unreachable { .. } | StoreError::Unconfirmed(_) | StoreError::Interrupted => {
                    UNREACHABLE
                }
                StoreError::Denied { .. } => DENIED,
                StoreError::NotALock { .. } | StoreError::OtherMode { .. } | StoreError::Unusable { .. } => {
                    CONFIGURATION
                }
            };
        }
    }
    BUG
}

/// Help and version go to stdout; for a mistake one line says what is wrong and what would be right.
pub fn of_arguments(mut error: clap::Error) -> Outcome {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let printed = error.print();
        return match printed.and_then(|()| io::stdout().flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => report(&of_printing(&error)),
            _ => Outcome::SUCCESS,
        };
    }
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    if argument.is_some_and(|argument| argument.starts_with("--token ")) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".to_owned()));
    }
    let text = error.render().to_string();
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        Messages::default()
            .error("there is no subcommand; try 'redlock run --key KEY -- COMMAND', or 'redlock --help'");
        return Outcome::Exit(USAGE);
    }
    // What is wrong stands before the first empty line, tips behind it.
    let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut line = words(what.trim_start_matches("error: "));
    for tip in rest.lines().map(str::trim).filter_map(|line| line.strip_prefix("tip: ")) {
        line = format!("{line}; {}", words(tip));
    }
    if error.kind() == ErrorKind::MissingRequiredArgument {
        line = format!("{line}; for example: redlock run --key KEY -- COMMAND");
    }
    Messages::default().error(format_args!("{line}; see 'redlock --help'"));
    Outcome::Exit(USAGE)
}

/// In one line, and without an owner token that stands in the wrong place.
fn words(text: &str) -> String {
    let is_token = |word: &str| Uuid::try_parse(word.trim_matches('\'')).is_ok();
    let words = text.split_whitespace().map(|word| if is_token(word) { "'…'" } else { word });
    words.collect::<Vec<_>>().join(" ")
}
