//! The sources of the values of options.

use std::env;
use std::ffi::OsStr;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::config::Setting;
use crate::cli;

/// The sources of the values of a subcommand's options.
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

    /// A variable that says no to a switch is one that the parser need not have seen.
    fn is_variable(self, option: &str) -> bool {
        match self.source(option) {
            Some(ValueSource::DefaultValue) => is_off(variable(option)),
            source => source == Some(ValueSource::EnvVariable),
        }
    }

    /// True if a flag or a variable gives the option.
    pub fn is_set(self, option: &str) -> bool {
        self.is_flag(option) || self.is_variable(option)
    }

    /// The words that a flag or a variable gives the option; a switch that is on may have none.
    pub fn words(self, option: &str) -> Option<Vec<String>> {
        if !self.is_set(option) {
            return None;
        }
        let words = self.0?.try_get_raw(option).ok().flatten().into_iter().flatten();
        Some(words.map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// The name that messages have for the source of an option's value: `--ttl`, `REDLOCK_TTL`, or the line of a file.
    pub fn name(self, option: &str, setting: Option<&Setting>) -> String {
        match setting {
            _ if self.is_variable(option) => variable(option),
            Some(setting) if !self.is_flag(option) => setting.to_string(),
            _ => format!("--{}", option.replace('_', "-")),
        }
    }

    fn source(self, option: &str) -> Option<ValueSource> {
        // Not every subcommand has the option.
        let matches = self.0.filter(|matches| matches.ids().any(|id| id == option))?;
        matches.value_source(option)
    }
}

fn variable(option: &str) -> String {
    format!("REDLOCK_{}", option.to_uppercase())
}

/// True if the variable of a switch says no. It contradicts nothing, so the parser need not see it.
pub fn is_off(variable: impl AsRef<OsStr>) -> bool {
    env::var(variable).is_ok_and(|value| cli::switch(&value) == Ok(false))
}
