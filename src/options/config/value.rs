//! The values of settings, read as the command line reads them.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, ValueHint};
use toml::Value;

use crate::cli;
use crate::lock::Key;
use crate::options::server_urls::{EMPTY, split_urls};
use crate::options::suggestion::nearest;
use crate::store::is_relative;

/// The prefix of all keys of a team that shares a store. No option has its name.
pub const KEY_PREFIX: &str = "key-prefix";

const RELATIVE: &str =
    "a path in a file begins with '/': it would be another one in each folder from which redlock starts";

/// Says what is wrong with a setting, if its option would refuse it.
pub fn refusal(name: &str, value: &Value) -> Option<String> {
    let wrong = |text: &str, why: String| format!("{name} = \"{text}\": {why}");
    let scalar = || text(value).ok_or_else(|| format!("{name}: it takes one value, such as \"30s\""));
    let refused = match (name, option(name)) {
        ("server", _) => urls(value).and_then(|urls| match wrong_url(&urls) {
            Some((url, why)) => Err(wrong(url, why.to_owned())),
            None => Ok(()),
        }),
        (KEY_PREFIX, _) => scalar().and_then(|prefix| {
            format!("{prefix}x").parse::<Key>().map(drop).map_err(|why| format!("{KEY_PREFIX}: {why}"))
        }),
        (_, Some(arg)) => scalar().and_then(|text| read(arg, &text).map_err(|why| wrong(&text, why))),
        (_, None) => Err(unknown(name)),
    };
    refused.err()
}

/// The words that the option takes: those of a list of servers, else one.
pub fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().filter_map(text).collect(),
        _ => text(value).into_iter().collect(),
    }
}

/// The option that a setting sets.
fn option(name: &str) -> Option<&'static Arg> {
    cli::settings().iter().find(|arg| arg.get_long() == Some(name))
}

fn unknown(name: &str) -> String {
    let known = cli::settings().iter().filter_map(Arg::get_long).chain([KEY_PREFIX]);
    match nearest(name, known) {
        Some(near) => format!("unknown setting '{name}'; did you mean {near}?"),
        None => format!("unknown setting '{name}'; see CONFIGURATION in redlock(1)"),
    }
}

/// Reads a value in a command line of its own.
fn read(arg: &Arg, text: &str) -> Result<(), String> {
    if matches!(arg.get_value_hint(), ValueHint::AnyPath) && !text.starts_with('/') {
        return Err(RELATIVE.to_owned());
    }
    let alone = Arg::new("value").long("value").value_parser(arg.get_value_parser().clone());
    let command = Command::new("redlock").no_binary_name(true).arg(alone.action(ArgAction::Set));
    let Err(error) = command.try_get_matches_from([format!("--value={text}")]) else { return Ok(()) };
    Err(match (std::error::Error::source(&error), error.get(ContextKind::ValidValue)) {
        (Some(why), _) => why.to_string(),
        (None, Some(ContextValue::Strings(words))) => format!("it takes {}", words.join(", ")),
        _ => "it is empty".to_owned(),
    })
}

/// A text, or a number or a switch as one.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is_on) => Some(is_on.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// A URL, or a list of URLs.
fn urls(value: &Value) -> Result<Vec<&str>, String> {
    let urls = match value {
        Value::Array(urls) => urls.iter().map(Value::as_str).collect(),
        _ => value.as_str().map(|url| vec![url]),
    };
    urls.ok_or_else(|| "server: it takes a URL, or a list of URLs".to_owned())
}

/// The first of these URLs that is wrong in a file, and why.
fn wrong_url<'a>(urls: &'a [&str]) -> Option<(&'a str, &'static str)> {
    if let Some(url) = urls.iter().find(|url| url.trim().is_empty()) {
        return Some((url, EMPTY));
    }
    split_urls(urls).into_iter().find(|url| is_relative(url)).map(|url| (url, RELATIVE))
}
