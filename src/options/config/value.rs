//! The values of settings, read as the command line reads them.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Deserializer};

use crate::cli;
use crate::lock::{DurationText, Wait};
use crate::options::server_urls::{EMPTY, split_urls};
use crate::store::is_relative;

const RELATIVE: &str =
    "a path in a file begins with '/': it would be another one in each folder from which redlock starts";

/// Reads a value as the command line does.
fn read_with<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = text(deserializer)?;
    read(&text).map(Some).map_err(|why| serde::de::Error::custom(format!("\"{text}\": {why}")))
}

/// A value that its own type reads.
pub fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    read_with(deserializer, str::parse)
}

/// One of a few words.
pub fn word<'de, D: Deserializer<'de>, T: ValueEnum>(deserializer: D) -> Result<Option<T>, D::Error> {
    let names = || T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let known = || names().map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(", ");
    read_with(deserializer, |text| T::from_str(text, false).map_err(|_| format!("it takes {}", known())))
}

/// On or off.
pub fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    read_with(deserializer, cli::switch)
}

/// As `--permits` takes it.
pub fn permits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    read_with(deserializer, cli::permits)
}

/// As `--replicas` takes it.
pub fn replicas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    read_with(deserializer, cli::replicas)
}

/// As `--history` takes it.
pub fn history<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    read_with(deserializer, cli::history)
}

/// As `--conflict-exit-code` takes it.
pub fn exit_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    read_with(deserializer, cli::exit_status)
}

/// As `--connect-timeout` takes it.
pub fn connect_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DurationText>, D::Error> {
    read_with(deserializer, cli::connect_timeout)
}

/// A path that is the same one for each call.
pub fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    read_with(deserializer, absolute)
}

/// As `--log-file` takes it.
pub fn log_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    read_with(deserializer, |text| absolute(text).and_then(cli::log_file))
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') { Ok(PathBuf::from(text)) } else { Err(RELATIVE.to_owned()) }
}

/// `wait = true`, `wait = false` or `wait = "10m"`.
pub fn wait<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Wait>, D::Error> {
    read_with(deserializer, cli::wait)
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

/// A URL, or a list of URLs.
pub fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "it takes a URL, or a list of URLs")]
    enum Either {
        One(String),
        More(Vec<String>),
    }
    let values = match Either::deserialize(deserializer)? {
        Either::One(url) => vec![url],
        Either::More(urls) => urls,
    };
    let wrong = |value: &str, why: &str| Err(serde::de::Error::custom(format!("\"{value}\": {why}")));
    if let Some(value) = values.iter().find(|value| value.trim().is_empty()) {
        return wrong(value, EMPTY);
    }
    match split_urls(&values).into_iter().find(|url| is_relative(url)) {
        Some(url) => wrong(url, RELATIVE),
        None => Ok(values),
    }
}
