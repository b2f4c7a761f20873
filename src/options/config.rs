//! Where the values of options come from, strongest first: flag, environment (both in [`crate::cli`]), the
//! user's configuration file, the system's, the default.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::cli::{Color, GlobalArgs, Leftovers, OnLost};
use crate::lock::{DurationText, Ttl};
use crate::secret::refuse_shared;
use crate::store::{Credentials, Roots, ServerUrl, TlsFiles};
use crate::user;

const SYSTEM_FILE: &str = "/etc/redlock/config.toml";
const DEFAULT_SERVER: &str = "redis://127.0.0.1:6379";
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The configuration cannot be used: exit status 78.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ConfigError(String);

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
    /// For one exchange with the store.
    #[serde(deserialize_with = "from_text")]
    pub connect_timeout: Option<DurationText>,
    pub quiet: Option<bool>,
    pub verbose: Option<bool>,
    pub color: Option<Color>,
    #[serde(deserialize_with = "from_text")]
    pub ttl: Option<Ttl>,
    pub wait: Option<WaitSetting>,
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

/// `wait = true`, `wait = false` or `wait = "10m"`.
#[derive(Clone, Copy, Debug)]
pub enum WaitSetting {
    Forever(bool),
    AtMost(DurationText),
}

impl<'de> Deserialize<'de> for WaitSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "true, false or a duration such as \"10m\"")]
        enum Either {
            Switch(bool),
            Text(String),
            Seconds(u32),
        }
        match Either::deserialize(deserializer)? {
            Either::Switch(on) => Ok(WaitSetting::Forever(on)),
            Either::Text(text) => text.parse().map(WaitSetting::AtMost).map_err(serde::de::Error::custom),
            Either::Seconds(seconds) => {
                Ok(WaitSetting::AtMost(DurationText(Duration::from_secs(seconds.into()))))
            }
        }
    }
}

/// Reads what is written as on the command line; a bare number stands for itself.
fn from_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a duration such as \"30s\"")]
    enum Either {
        Text(String),
        Whole(i64),
        Part(f64),
    }
    let text = match Either::deserialize(deserializer)? {
        Either::Text(text) => text,
        Either::Whole(number) => number.to_string(),
        Either::Part(number) => number.to_string(),
    };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// A URL, or a list of them.
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

/// URLs that stand in one variable are separated by spaces, which a path may have, too: a URL begins where a word
/// has a scheme.
fn separate(values: &[String]) -> Vec<&str> {
    let mut urls = Vec::new();
    for value in values {
        let mut begin = 0;
        for (space, _) in value.match_indices(char::is_whitespace) {
            let word = value[space..].trim_start().split(char::is_whitespace).next().unwrap_or_default();
            if word.contains("://") || word == "local:" {
                urls.push(value[begin..space].trim());
                begin = space;
            }
        }
        urls.push(value[begin..].trim());
    }
    urls.retain(|url| !url.is_empty());
    urls
}

impl Config {
    /// The user's file over the system's. A file named by `--config` has to exist.
    ///
    /// # Errors
    ///
    /// A file cannot be read or understood, or has a password and can be read by others.
    pub fn load(global: &GlobalArgs) -> Result<Config, ConfigError> {
        let user = match &global.config {
            Some(path) => read(path)?
                .ok_or_else(|| ConfigError(format!("there is no configuration file {}", path.display())))?,
            None => match user::home() {
                Ok(Some(home)) => read(&home.join(".config/redlock/config.toml"))?.unwrap_or_default(),
                Ok(None) => Config::default(),
                // It may name another server.
                Err(why) => {
                    return Err(ConfigError(format!("{why}; name the configuration file with --config")));
                }
            },
        };
        Ok(user.over(read(Path::new(SYSTEM_FILE))?.unwrap_or_default()))
    }

    fn over(self, weaker: Config) -> Config {
        Config {
            server: if self.server.is_empty() { weaker.server } else { self.server },
            user: self.user.or(weaker.user),
            password_file: self.password_file.or(weaker.password_file),
            sentinel_password_file: self.sentinel_password_file.or(weaker.sentinel_password_file),
            tls_ca: self.tls_ca.or(weaker.tls_ca),
            tls_cert: self.tls_cert.or(weaker.tls_cert),
            tls_key: self.tls_key.or(weaker.tls_key),
            connect_timeout: self.connect_timeout.or(weaker.connect_timeout),
            quiet: self.quiet.or(weaker.quiet),
            verbose: self.verbose.or(weaker.verbose),
            color: self.color.or(weaker.color),
            ttl: self.ttl.or(weaker.ttl),
            wait: self.wait.or(weaker.wait),
            shared: self.shared.or(weaker.shared),
            permits: self.permits.or(weaker.permits),
            label: self.label.or(weaker.label),
            min_hold: self.min_hold.or(weaker.min_hold),
            replicas: self.replicas.or(weaker.replicas),
            conflict_exit_code: self.conflict_exit_code.or(weaker.conflict_exit_code),
            on_lost: self.on_lost.or(weaker.on_lost),
            kill_after: self.kill_after.or(weaker.kill_after),
            timeout: self.timeout.or(weaker.timeout),
            splay: self.splay.or(weaker.splay),
            leftovers: self.leftovers.or(weaker.leftovers),
            at_least: self.at_least.or(weaker.at_least),
            shell: self.shell.or(weaker.shell),
        }
    }

    /// The server, and whether it is the default one.
    ///
    /// # Errors
    ///
    /// A URL is none, or those of several do not go together.
    pub fn server(&self, global: &GlobalArgs) -> Result<(ServerUrl, bool), ConfigError> {
        let chosen = if global.server.is_empty() { &self.server } else { &global.server };
        let mut texts = separate(chosen);
        let is_default = texts.is_empty();
        if is_default {
            texts.push(DEFAULT_SERVER);
        }
        let url = ServerUrl::parse(&texts);
        Ok((url.map_err(|why| ConfigError(format!("the server URL cannot be used: {why}")))?, is_default))
    }

    /// User and password. `REDISCLI_AUTH` is the weakest source, as it is there for another program.
    ///
    /// # Errors
    ///
    /// A password file cannot be read, can be read by others, or is empty.
    pub fn login(&self, global: &GlobalArgs) -> Result<Credentials, ConfigError> {
        let file = global.password_file.as_ref().or(self.password_file.as_ref());
        let password = match file {
            Some(path) => Some(secret(path)?),
            None => std::env::var("REDISCLI_AUTH").ok().filter(|password| !password.is_empty()),
        };
        let sentinel = global.sentinel_password_file.as_ref().or(self.sentinel_password_file.as_ref());
        let file =
            |flag: &Option<PathBuf>, setting: &Option<PathBuf>| flag.clone().or_else(|| setting.clone());
        Ok(Credentials {
            user: global.user.clone().or_else(|| self.user.clone()),
            password,
            sentinel_password: sentinel.map(|path| secret(path)).transpose()?,
            tls_files: TlsFiles {
                ca: file(&global.tls_ca, &self.tls_ca),
                cert: file(&global.tls_cert, &self.tls_cert),
                key: file(&global.tls_key, &self.tls_key),
                roots: Roots::named(),
            },
        })
    }

    pub fn ttl(&self, flag: Option<Ttl>) -> Ttl {
        flag.or(self.ttl).unwrap_or(Ttl::DEFAULT)
    }

    /// How long a job has from SIGTERM to its end.
    pub fn kill_after(&self, flag: Option<DurationText>, ttl: Ttl) -> Duration {
        flag.or(self.kill_after).map_or(ttl.default_kill_after(), |text| text.0)
    }

    pub fn replicas(&self, flag: Option<u8>) -> u8 {
        flag.or(self.replicas).unwrap_or(0)
    }

    /// How long one exchange with the store may take, by default 5 s.
    ///
    /// # Errors
    ///
    /// It is zero.
    pub fn connect_timeout(&self, global: &GlobalArgs) -> Result<Duration, ConfigError> {
        let timeout =
            global.connect_timeout.or(self.connect_timeout).map_or(DEFAULT_CONNECT_TIMEOUT, |text| text.0);
        if timeout.is_zero() {
            return Err(ConfigError("--connect-timeout 0 leaves no time to connect; try 5s".to_owned()));
        }
        Ok(timeout)
    }
}

/// The configuration in a file; `None` when there is no such file.
fn read(path: &Path) -> Result<Option<Config>, ConfigError> {
    let refused = |why: &str| ConfigError(format!("{}: {why}", path.display()));
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
    if ServerUrl::parse(&separate(&config.server)).is_ok_and(|url| url.has_password()) {
        refuse_shared(&file).map_err(|why| refused(&format!("it contains a password, and {why}")))?;
    }
    Ok(Some(config))
}

/// "line 3: unknown field `tll`, expected one of …", and never the line itself, which may hold a password.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().replace('\n', ", ");
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or(message.clone(), |before| format!("line {}: {message}", before.matches('\n').count() + 1))
}

/// The first line of a file that nobody else can read.
fn secret(path: &Path) -> Result<String, ConfigError> {
    let refused = |why: String| ConfigError(format!("password file {}: {why}", path.display()));
    let unreadable = |error| refused(format!("cannot be read: {error}"));
    let mut file = File::open(path).map_err(unreadable)?;
    refuse_shared(&file).map_err(refused)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(refused("its first line is empty; it should be the password".to_owned())),
    }
}
