//! Failures, and the exit status that each of them calls for.

use std::io;

use thiserror::Error;

use crate::lock::StoreError;

pub const NOT_HELD: u8 = 1;
pub const NOT_FIT: u8 = 1;
pub const NOT_RUN: u8 = 1;
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

/// The end of redlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exit(u8),
    /// Killed by this signal, as the command was.
    Signal(i32),
}

impl Outcome {
    pub const SUCCESS: Outcome = Outcome::Exit(0);

    pub fn end(self) -> ! {
        match self {
            Outcome::Exit(code) => std::process::exit(code.into()),
            Outcome::Signal(signal) => crate::job::die_of(signal),
        }
    }
}

/// Why a subcommand stopped early. The root of every [`anyhow::Error`] in the program but those of the parser; context may
/// precede it.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Failure {
    #[error("{reason}{}", hint.iter().map(|hint| format!("; {hint}")).collect::<String>())]
    Failed { code: u8, reason: String, hint: Option<String> },
    #[error("ended by signal {0}")]
    Signal(i32),
    /// Exit with this status; the reason was reported before.
    #[error("exit status {0}")]
    Quiet(u8),
}

impl Failure {
    pub fn new(code: u8, reason: impl Into<String>) -> Failure {
        Failure::Failed { code, reason: without_number(reason.into()), hint: None }
    }

    /// The failure with what to do about it.
    pub fn hint(self, text: impl Into<String>) -> Failure {
        match self {
            Failure::Failed { code, reason, .. } => Failure::Failed { code, reason, hint: Some(text.into()) },
            other => other,
        }
    }

    /// The command line asks for something impossible.
    pub fn usage(reason: impl Into<String>) -> Failure {
        Failure::new(USAGE, reason)
    }

    /// A file or a URL is wrong.
    pub fn configuration(reason: impl Into<String>) -> Failure {
        Failure::new(CONFIGURATION, reason)
    }

    /// The system refused what redlock needs.
    pub fn cannot(what: &str) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure::new(UNREACHABLE, format!("cannot {what}: {error}"))
    }

    /// Standard output took less than all of the answer.
    pub fn not_printed(error: io::Error) -> Failure {
        Failure::new(NOT_PRINTED, format!("cannot write to standard output: {error}"))
    }

    /// A failure with more about it, if it has a reason that is yet to be reported.
    pub fn with_more(error: anyhow::Error, more: &str) -> anyhow::Error {
        match error.downcast_ref() {
            Some(Failure::Failed { code, hint, .. }) => {
                let (reason, _) = Failure::reason_and_hint(&error);
                let reason = without_number(format!("{reason}; {more}"));
                Failure::Failed { code: *code, reason, hint: hint.clone() }.into()
            }
            _ => error,
        }
    }

    pub fn outcome(error: &anyhow::Error) -> Outcome {
        match error.downcast_ref() {
            Some(Failure::Failed { code, .. } | Failure::Quiet(code)) => Outcome::Exit(*code),
            Some(Failure::Signal(signal)) => Outcome::Signal(*signal),
            None => Outcome::Exit(BUG),
        }
    }

    /// The words about an error: why redlock ends, and what to do about it.
    pub fn reason_and_hint(error: &anyhow::Error) -> (String, Option<&str>) {
        let text = format!("{error:#}");
        let Some(Failure::Failed { hint: Some(hint), .. }) = error.downcast_ref() else {
            return (text, None);
        };
        let reason = text.strip_suffix(hint.as_str()).and_then(|text| text.strip_suffix("; "));
        (reason.unwrap_or(&text).to_owned(), Some(hint))
    }

    /// True if redlock has to say why it ends.
    pub fn is_unreported(error: &anyhow::Error) -> bool {
        !matches!(error.downcast_ref(), Some(Failure::Signal(_) | Failure::Quiet(_)))
    }
}

/// "Permission denied (os error 13)" without the number.
pub fn without_number(mut reason: String) -> String {
    while let Some(begin) = reason.find(" (os error ")
        && let Some(length) = reason[begin..].find(')')
    {
        reason.replace_range(begin..=begin + length, "");
    }
    reason
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let code = match error {
            StoreError::Unreachable { .. } | StoreError::Unconfirmed(_) | StoreError::Interrupted => {
                UNREACHABLE
            }
            StoreError::Denied { .. } => DENIED,
            StoreError::NotALock { .. } | StoreError::OtherMode { .. } | StoreError::Unusable { .. } => {
                CONFIGURATION
            }
        };
        Failure::new(code, error.to_string())
    }
}

#[test]
fn an_error_of_the_system_has_no_number() {
    let error = io::Error::from_raw_os_error(13);
    let failure = Failure::usage(format!("a: {error}; b: {error}"));
    assert_eq!(failure.to_string(), "a: Permission denied; b: Permission denied");
    assert_eq!(Failure::usage("a (os error 1").to_string(), "a (os error 1");
}

#[test]
fn a_hint_is_the_end_of_the_line_and_apart() {
    let error = anyhow::Error::from(Failure::usage("the key is missing").hint("name it")).context("run");
    assert_eq!(format!("{error:#}"), "run: the key is missing; name it");
    assert_eq!(Failure::reason_and_hint(&error), ("run: the key is missing".to_owned(), Some("name it")));
}

#[test]
fn context_leaves_the_exit_status() {
    let denied = StoreError::Denied { store: "redis://h".to_owned(), why: "NOPERM".to_owned() };
    let error = anyhow::Error::from(Failure::from(denied)).context("released 'X'");
    assert_eq!(Failure::outcome(&error), Outcome::Exit(DENIED));
    assert_eq!(format!("{error:#}"), "released 'X': redis://h refuses: NOPERM");
    assert!(Failure::is_unreported(&error));
    let interrupted = anyhow::Error::from(Failure::Signal(15));
    assert_eq!(Failure::outcome(&interrupted), Outcome::Signal(15));
    assert!(!Failure::is_unreported(&interrupted));
    assert_eq!(Failure::outcome(&anyhow::anyhow!("unforeseen")), Outcome::Exit(BUG));
}
