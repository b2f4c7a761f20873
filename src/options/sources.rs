//! Where the values of options come from.

use std::env;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::config::Setting;
use crate::cli;

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

    /// The words that flags give the option.
    pub fn flag(self, option: &str) -> Option<Vec<String>> {
        if !self.is_flag(option) {
            return None;
        }
        let words = self.0?.try_get_raw(option).ok().flatten().into_iter().flatten();
        Some(words.map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// The value of a switch, if a flag or a variable sets it. The parser may not have seen a variable that says no.
    pub fn switch(self, option: &str, value: bool) -> Option<bool> {
        let is_off = || env::var(variable(option)).is_ok_and(|value| cli::switch(&value) == Ok(false));
        match self.source(option) {
            Some(ValueSource::CommandLine | ValueSource::EnvVariable) => Some(value),
            _ if is_off() => Some(false),
            _ => None,
        }
    }

    /// What a message calls the source of an option's value: `--ttl`, `REDLOCK_TTL`, or the line of a file.
    pub fn name(self, option: &str, setting: Option<&Setting>) -> String {
        match (self.source(option), setting) {
            (Some(ValueSource::EnvVariable), _) => variable(option),
            (None | Some(ValueSource::DefaultValue), Some(setting)) => setting.to_string(),
            _ => format!("--{}", option.replace('_', "-")),
        }
    }

    fn source(self, option: &str) -> Option<ValueSource> {
        // Not every subcommand has the option.
        let matches = self.0.filter(|matches| matches.try_contains_id(option).is_ok())?;
        matches.value_source(option)
    }
}

fn variable(option: &str) -> String {
    format!("REDLOCK_{}", option.to_uppercase())
}
