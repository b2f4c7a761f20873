//! The configuration files: the user's over the system's.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use toml::Table;

use super::global::has_password;
use crate::cli::{Color, Leftovers, OnLost};
use crate::error::Failure;
use crate::lock::{DurationText, Ttl, Wait};
use crate::secret::refuse_shared;
use crate::user;

const SYSTEM_FILE: &str = "/etc/redlock/config.toml";

/// The options that a configuration file may set, with the names of the command line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    #[serde(deserialize_with = "one_or_more")]
    pub server: Vec<String>,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    pub sentinel_password_file: Option<PathBuf>,
    pub tls_ca: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    #[serde(deserialize_with = "from_text")]
    pub connect_timeout: Option<DurationText>,
    pub quiet: Option<bool>,
    pub verbose: Option<bool>,
    pub color: Option<Color>,
    #[serde(deserialize_with = "from_text")]
    pub ttl: Option<Ttl>,
    #[serde(deserialize_with = "wait")]
    pub wait: Option<Wait>,
    pub shared: Option<bool>,
    pub permits: Option<NonZeroU32>,
    pub label: Option<String>,
    #[serde(deserialize_with = "from_text")]
    pub min_hold: Option<DurationText>,
    pub replicas: Option<u8>,
    pub conflict_exit_code: Option<u8>,
    pub on_lost: Option<OnLost>,
    #[serde(deserialize_with = "from_text")]
    pub kill_after: Option<DurationText>,
    #[serde(deserialize_with = "from_text")]
    pub timeout: Option<DurationText>,
    #[serde(deserialize_with = "from_text")]
    pub splay: Option<DurationText>,
    pub leftovers: Option<Leftovers>,
    /// `check --for`.
    #[serde(rename = "for", deserialize_with = "from_text")]
    pub at_least: Option<DurationText>,
    pub shell: Option<bool>,
}

/// Reads what is written as on the command line.
fn from_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    text(deserializer)?.parse().map(Some).map_err(serde::de::Error::custom)
}

/// `wait = true`, `wait = false` or `wait = "10m"`.
fn wait<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Wait>, D::Error> {
    Ok(Some(match &text(deserializer)?[..] {
        "true" => Wait::Forever,
        "false" => Wait::No,
        limit => Wait::AtMost(limit.parse::<DurationText>().map_err(serde::de::Error::custom)?.0),
    }))
}

/// A text, or a number or a switch as one.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a duration such as \"30s\"")]
    enum Scalar {
        Text(String),
        Whole(i64),
        Part(f64),
        Switch(bool),
    }
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Text(text) => text,
        Scalar::Whole(number) => number.to_string(),
        Scalar::Part(number) => number.to_string(),
        Scalar::Switch(on) => on.to_string(),
    })
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a URL, or a list of URLs")]
    enum Either {
        One(String),
        More(Vec<String>),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::One(url) => vec![url],
        Either::More(urls) => urls,
    })
}

impl Config {
    /// Reads the files. One that `--config` names must exist; one with a password is for its owner only.
    pub fn load(path: Option<&Path>) -> Result<Config, Failure> {
        let user = match path {
            Some(path) => match read(path)? {
                None => {
                    let reason = format!("there is no configuration file {}", path.display());
                    return Err(Failure::configuration(reason));
                }
                file => file,
            },
            // If it is not known where the file is: it may name another server.
            None => match user::home().map_err(|why| {
                Failure::configuration(format!("{why}; name the configuration file with --config"))
            })? {
                Some(home) => read(&home.join(".config/redlock/config.toml"))?,
                None => None,
            },
        };
        match (user, read(Path::new(SYSTEM_FILE))?) {
            (Some(user), Some(system)) => merge(&user.text, &system.text)
                .map_err(|error| Failure::configuration(format!("the configuration files: {error}"))),
            (Some(file), None) | (None, Some(file)) => Ok(file.config),
            (None, None) => Ok(Config::default()),
        }
    }
}

/// The settings of both files; those of `stronger` replace those of `weaker`.
fn merge(stronger: &str, weaker: &str) -> Result<Config, toml::de::Error> {
    let (stronger, mut settings): (Table, Table) = (toml::from_str(stronger)?, toml::from_str(weaker)?);
    let is_empty = |value: &toml::Value| value.as_array().is_some_and(Vec::is_empty);
    settings.extend(stronger.into_iter().filter(|(_, value)| !is_empty(value)));
    settings.try_into()
}

struct ConfigFile {
    text: String,
    config: Config,
}

/// Reads a file; `None` when there is no such file.
fn read(path: &Path) -> Result<Option<ConfigFile>, Failure> {
    let refused = |why: &str| Failure::configuration(format!("{}: {why}", path.display()));
    let unreadable = |error| refused(&format!("cannot be read: {error}"));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    let config: Config = toml::from_str(&text).map_err(|error| refused(&one_line(&error, &text)))?;
    if has_password(&config.server) {
        refuse_shared(&file).map_err(|why| refused(&format!("it contains a password, and {why}")))?;
    }
    Ok(Some(ConfigFile { text, config }))
}

/// "line 3: unknown field `tll`, expected one of …", without the line itself, which may hold a password.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().replace('\n', ", ");
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or(message.clone(), |before| format!("line {}: {message}", before.matches('\n').count() + 1))
}

#[test]
fn the_users_file_replaces_single_settings_of_the_systems() -> Result<(), toml::de::Error> {
    let config = merge("ttl = \"10s\"\nserver = []\n", "ttl = 20\nserver = \"local:\"\nshared = true\n")?;
    assert_eq!(config.ttl.map(|ttl| ttl.to_string()), Some("10s".to_owned()));
    assert_eq!((config.server, config.shared), (vec!["local:".to_owned()], Some(true)));
    Ok(())
}
