//! The configuration files: the user's over the system's.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Deserializer};
use toml::Table;

use super::Sources;
use super::global::has_password;
use super::suggestion::nearest;
use crate::cli::{self, Color, Leftovers, LogFormat, OnLost};
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
    #[serde(deserialize_with = "switch")]
    pub quiet: Option<bool>,
    #[serde(deserialize_with = "switch")]
    pub verbose: Option<bool>,
    #[serde(deserialize_with = "word")]
    pub color: Option<Color>,
    #[serde(deserialize_with = "word")]
    pub log_format: Option<LogFormat>,
    pub log_file: Option<PathBuf>,
    pub metrics_file: Option<PathBuf>,
    #[serde(deserialize_with = "from_text")]
    pub ttl: Option<Ttl>,
    #[serde(deserialize_with = "wait")]
    pub wait: Option<Wait>,
    #[serde(deserialize_with = "switch")]
    pub shared: Option<bool>,
    #[serde(deserialize_with = "permits")]
    pub permits: Option<NonZeroU32>,
    pub label: Option<String>,
    #[serde(deserialize_with = "from_text")]
    pub min_hold: Option<DurationText>,
    #[serde(deserialize_with = "replicas")]
    pub replicas: Option<u8>,
    #[serde(deserialize_with = "exit_status")]
    pub conflict_exit_code: Option<u8>,
    #[serde(deserialize_with = "word")]
    pub on_lost: Option<OnLost>,
    #[serde(deserialize_with = "from_text")]
    pub kill_after: Option<DurationText>,
    #[serde(deserialize_with = "from_text")]
    pub timeout: Option<DurationText>,
    #[serde(deserialize_with = "from_text")]
    pub splay: Option<DurationText>,
    #[serde(deserialize_with = "word")]
    pub leftovers: Option<Leftovers>,
    /// `check --for`.
    #[serde(rename = "for", deserialize_with = "from_text")]
    pub at_least: Option<DurationText>,
    /// The files that were read, the strongest first.
    #[serde(skip)]
    files: Vec<PathBuf>,
    #[serde(deserialize_with = "switch")]
    pub shell: Option<bool>,
}

/// Reads a value as the command line does.
fn read_with<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = text(deserializer)?;
    read(&text).map(Some).map_err(|why| serde::de::Error::custom(format!("\"{text}\": {why}")))
}

fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    read_with(deserializer, str::parse)
}

/// One of a few words.
fn word<'de, D: Deserializer<'de>, T: ValueEnum>(deserializer: D) -> Result<Option<T>, D::Error> {
    let names = || T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let known = || names().map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(", ");
    read_with(deserializer, |text| T::from_str(text, false).map_err(|_| format!("it takes {}", known())))
}

fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    read_with(deserializer, cli::switch)
}

fn permits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    read_with(deserializer, cli::permits)
}

fn replicas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    read_with(deserializer, cli::replicas)
}

fn exit_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    read_with(deserializer, cli::exit_status)
}

/// `wait = true`, `wait = false` or `wait = "10m"`.
fn wait<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Wait>, D::Error> {
    read_with(deserializer, |text| match text {
        "true" => Ok(Wait::Forever),
        "false" => Ok(Wait::No),
        limit => limit.parse::<DurationText>().map(|limit| Wait::AtMost(limit.0)),
    })
}

/// A text, or a number or a switch as one.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "it takes one value, such as \"30s\"")]
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
    #[serde(untagged, expecting = "it takes a URL, or a list of URLs")]
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
    pub fn load(path: Option<&Path>, sources: Sources) -> Result<Config, Failure> {
        let user = match path {
            Some(path) => match read(path)? {
                None => {
                    let source = sources.name("config", &Config::default());
                    let reason = format!("{source}: there is no configuration file {}", path.display());
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
        let system = read(Path::new(SYSTEM_FILE))?;
        let files = [&user, &system].into_iter().flatten().map(|file| file.path.clone()).collect();
        let config = match (user, system) {
            (Some(user), Some(system)) => merge(&user.text, &system.text)
                .map_err(|error| Failure::configuration(format!("the configuration files: {error}")))?,
            (Some(file), None) | (None, Some(file)) => file.config,
            (None, None) => Config::default(),
        };
        Ok(Config { files, ..config })
    }

    /// The file that has this setting, and its line: `/etc/redlock/config.toml line 3`.
    pub fn place(&self, setting: &str) -> Option<String> {
        self.files.iter().find_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            let is_set = |line: &str| setting_of(line) == Some(setting);
            let line = text.lines().position(is_set)?;
            Some(format!("{} line {}", path.display(), line + 1))
        })
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
    path: PathBuf,
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
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| refused("this is not UTF-8"))?;
    let config: Config = toml::from_str(&text)
        .map_err(|error| Failure::configuration(format!("{} {}", path.display(), one_line(&error, &text))))?;
    if config.shared == Some(true) && config.permits.is_some() {
        return Err(refused("shared cannot be used with permits"));
    }
    if has_password(&config.server) {
        refuse_shared(&file).map_err(|why| refused(&format!("it contains a password, and {why}")))?;
    }
    Ok(Some(ConfigFile { path: path.to_owned(), text, config }))
}

/// `line 3: ttl = "soon": a duration looks like …`. The line itself may hold a password.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().replace('\n', ", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message };
    let number = before.matches('\n').count();
    let setting = text.lines().nth(number).and_then(setting_of);
    // "unknown field `tll`, expected one of `server`, `user`, …"
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown field"));
    let what = match (unknown, setting) {
        (Some(name), _) => match nearest(name, quoted) {
            Some(near) => format!("there is no setting '{name}'; did you mean {near}?"),
            None => format!("there is no setting '{name}'; see CONFIGURATION in redlock(1)"),
        },
        (None, Some(setting)) if message.starts_with('"') => format!("{setting} = {message}"),
        (None, Some(setting)) if message.contains("it takes ") => format!("{setting}: {message}"),
        (None, Some(setting)) if message.starts_with("invalid type") || message.starts_with("duplicate") => {
            format!(
                "{setting}: {}",
                if message.starts_with('d') { "it is set twice" } else { "it takes a text" }
            )
        }
        _ => "this cannot be read; a line looks like ttl = \"30s\"".to_owned(),
    };
    format!("line {}: {what}", number + 1)
}

/// The name before the `=`.
fn setting_of(line: &str) -> Option<&str> {
    line.split_once('=').map(|(name, _)| name.trim().trim_matches(['"', '\'']))
}

#[test]
fn the_users_file_replaces_single_settings_of_the_systems() -> Result<(), toml::de::Error> {
    let config = merge("ttl = \"10s\"\nserver = []\n", "ttl = 20\nserver = \"local:\"\nshared = true\n")?;
    assert_eq!(config.ttl.map(|ttl| ttl.to_string()), Some("10s".to_owned()));
    assert_eq!((config.server, config.shared), (vec!["local:".to_owned()], Some(true)));
    Ok(())
}
