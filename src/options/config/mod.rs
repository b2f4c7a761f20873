//! The configuration files, and what they say about one call.

mod file;
mod section;
mod selection;
mod value;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;

pub use self::file::check as check_file;
#[cfg(any(test, fuzzing))]
pub use self::file::read_text;
pub use self::section::{CONTRADICTIONS, Setting};
pub use self::selection::SectionQuery;
use crate::cli::{Color, Leftovers, LogFormat, OnLost};
use crate::lock::{DurationText, Ttl, Wait};

/// The options that a configuration file may set, with the names of the command line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    #[serde(deserialize_with = "value::one_or_more")]
    pub server: Vec<String>,
    pub user: Option<String>,
    #[serde(deserialize_with = "value::path")]
    pub password_file: Option<PathBuf>,
    #[serde(deserialize_with = "value::path")]
    pub sentinel_password_file: Option<PathBuf>,
    #[serde(deserialize_with = "value::path")]
    pub tls_ca: Option<PathBuf>,
    #[serde(deserialize_with = "value::path")]
    pub tls_cert: Option<PathBuf>,
    #[serde(deserialize_with = "value::path")]
    pub tls_key: Option<PathBuf>,
    #[serde(deserialize_with = "value::connect_timeout")]
    pub connect_timeout: Option<DurationText>,
    #[serde(deserialize_with = "value::switch")]
    pub quiet: Option<bool>,
    #[serde(deserialize_with = "value::switch")]
    pub verbose: Option<bool>,
    #[serde(deserialize_with = "value::word")]
    pub color: Option<Color>,
    #[serde(deserialize_with = "value::word")]
    pub log_format: Option<LogFormat>,
    #[serde(deserialize_with = "value::log_file")]
    pub log_file: Option<PathBuf>,
    #[serde(deserialize_with = "value::switch")]
    pub syslog: Option<bool>,
    #[serde(deserialize_with = "value::path")]
    pub metrics_file: Option<PathBuf>,
    #[serde(deserialize_with = "value::from_text")]
    pub ttl: Option<Ttl>,
    #[serde(deserialize_with = "value::wait")]
    pub wait: Option<Wait>,
    #[serde(deserialize_with = "value::switch")]
    pub shared: Option<bool>,
    #[serde(deserialize_with = "value::permits")]
    pub permits: Option<NonZeroU32>,
    pub label: Option<String>,
    #[serde(deserialize_with = "value::from_text")]
    pub min_hold: Option<DurationText>,
    #[serde(deserialize_with = "value::replicas")]
    pub replicas: Option<u8>,
    #[serde(deserialize_with = "value::history")]
    pub history: Option<u8>,
    #[serde(deserialize_with = "value::exit_status")]
    pub conflict_exit_code: Option<u8>,
    #[serde(deserialize_with = "value::word")]
    pub on_lost: Option<OnLost>,
    #[serde(deserialize_with = "value::from_text")]
    pub kill_after: Option<DurationText>,
    #[serde(deserialize_with = "value::from_text")]
    pub timeout: Option<DurationText>,
    #[serde(deserialize_with = "value::from_text")]
    pub splay: Option<DurationText>,
    #[serde(deserialize_with = "value::word")]
    pub leftovers: Option<Leftovers>,
    pub on_wait: Option<String>,
    pub on_acquire: Option<String>,
    pub on_lost_run: Option<String>,
    pub on_release: Option<String>,
    /// `check --for`.
    #[serde(rename = "for", deserialize_with = "value::from_text")]
    pub at_least: Option<DurationText>,
    #[serde(deserialize_with = "value::switch")]
    pub shell: Option<bool>,
    /// Of a team that shares a store: all its keys begin with this.
    pub key_prefix: Option<String>,
    servers: BTreeMap<String, Config>,
    keys: BTreeMap<String, Config>,
    profiles: BTreeMap<String, Config>,
    /// The settings that are in force, and where they stand.
    #[serde(skip)]
    settings: BTreeMap<String, Setting>,
    /// The server has a name, by which the files know it.
    #[serde(skip)]
    pub is_named_server: bool,
}

impl Config {
    /// The setting of this name that is in force, and where it stands.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// All settings that are in force.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.settings.values()
    }

    /// The file, with an empty name, and each of its sections.
    fn parts(&self) -> Vec<(String, &Config)> {
        let mut parts = vec![(String::new(), self)];
        for (table, sections) in
            [("servers", &self.servers), ("keys", &self.keys), ("profiles", &self.profiles)]
        {
            parts.extend(sections.iter().map(|(name, section)| (format!("[{table}.\"{name}\"]: "), section)));
        }
        parts
    }

    fn has_sections(&self) -> bool {
        self.parts().len() > 1
    }
}

#[test]
fn contradictions_are_those_of_the_command_line() {
    use crate::options::command_line::{built, conflicts};
    let is_setting = |name: &&String| match toml::from_str::<Config>(&format!("{name} = []")) {
        Ok(_) => true,
        Err(error) => !error.message().starts_with("unknown field"),
    };
    let names = conflicts(&built()).into_iter().map(|pair| pair.map(|id| id.as_str().replace('_', "-")));
    let mut found: Vec<[String; 2]> =
        names.filter(|pair| pair.iter().all(|name| is_setting(&name))).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, CONTRADICTIONS);
}
