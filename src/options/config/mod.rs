//! The configuration files, and what they say about one call.

mod file;
mod pool;
mod section;
mod selection;
mod value;

use std::collections::BTreeMap;

pub use self::file::check as check_file;
#[cfg(any(test, fuzzing))]
pub use self::file::read_text;
pub use self::pool::{PoolMember, PoolQuery};
use self::section::CONTRADICTIONS;
pub use self::section::Setting;
pub use self::selection::SectionQuery;
pub use self::value::KEY_PREFIX;
use super::sources::Sources;
use crate::cli::switch;

/// The settings of the files that are about a call.
#[derive(Clone, Debug, Default)]
pub struct Config {
    settings: BTreeMap<String, Setting>,
    /// The server has a name, by which the files know it.
    pub is_named_server: bool,
    /// The members of the pool that the call names.
    pub pool: Vec<PoolMember>,
}

impl Config {
    /// The setting of this name that is in force, and where it stands.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// True if the files say nothing about the call.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// The prefix of all keys.
    pub fn key_prefix(&self) -> Option<&str> {
        self.setting(KEY_PREFIX).and_then(Setting::text)
    }

    /// The settings that no flag or variable overrules, or contradicts.
    pub fn without_overruled(mut self, sources: Sources) -> Config {
        let is_on = |option: &str| {
            sources.words(option).is_some_and(|words| words.iter().all(|word| switch(word) != Ok(false)))
        };
        let contradicts = |name: &str, [one, other]: [&str; 2]| {
            (name == one && is_on(other)) || (name == other && is_on(one))
        };
        let is_named_server = self.is_named_server;
        self.settings.retain(|name, setting| {
            let is_overruled = sources.words(&setting.option()).is_some();
            (!is_overruled && CONTRADICTIONS.into_iter().all(|pair| !contradicts(name, pair)))
                || (name == "server" && is_named_server)
        });
        self
    }
}

#[cfg(test)]
impl Config {
    /// The settings in the text of a file.
    pub fn of_text(text: &str) -> anyhow::Result<Config> {
        let contents = file::contents(text, std::path::Path::new("config.toml"));
        let contents = contents.map_err(|(line, why)| anyhow::anyhow!("line {line}: {why}"))?;
        Ok(selection::merge(contents.sections.iter()))
    }
}

#[test]
fn contradictions_are_those_of_the_command_line() {
    use crate::cli::settings;
    use crate::options::declared::{built, conflicts};
    let is_setting = |id: &clap::Id| settings().iter().any(|arg| arg.get_id() == id);
    let pairs = conflicts(&built()).into_iter().filter(|pair| pair.iter().all(is_setting));
    let mut found: Vec<[String; 2]> = pairs.map(|pair| pair.map(|id| id.to_string())).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, CONTRADICTIONS);
}

#[test]
fn each_option_with_a_variable_is_a_setting_or_of_one_call() {
    use crate::cli::settings;
    use crate::options::declared::built;
    let root = built();
    let options = root.get_subcommands().flat_map(clap::Command::get_arguments);
    let mut others: Vec<&str> = options
        .filter(|arg| arg.get_env().is_some() && settings().iter().all(|one| one.get_id() != arg.get_id()))
        .map(|arg| arg.get_id().as_str())
        .collect();
    others.sort_unstable();
    others.dedup();
    assert_eq!(others, ["config", "keys", "profile", "token", "token_file"]);
}
