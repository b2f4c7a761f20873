//! The settings in force, and where each comes from.

use clap::Arg;
use toml::Value;

use super::config::{KEY_PREFIX, Setting};
use super::server_urls::without_login;
use super::{Config, Sources};
use crate::cli;
use crate::report::SettingInForce;

/// The settings in force, in the order of the help texts; last those that have no variable.
pub fn settings_in_force(sources: Sources, files: &Config) -> Vec<SettingInForce> {
    let options = cli::settings().iter().filter_map(|arg| of_option(arg, sources, files));
    options.chain(files.setting(KEY_PREFIX).map(of_file)).collect()
}

fn of_option(arg: &Arg, sources: Sources, files: &Config) -> Option<SettingInForce> {
    let (name, option) = (arg.get_long()?, arg.get_id().as_str());
    if let Some(setting) = files.setting(name) {
        return Some(of_file(setting));
    }
    let (value, source) = match sources.words(option) {
        Some(words) if words.is_empty() => ("true".to_owned(), Some(sources.name(option, None))),
        Some(words) => (shown(&Value::from(words)), Some(sources.name(option, None))),
        None => (quoted(&default_of(arg)?), None),
    };
    Some(SettingInForce { name: name.to_owned(), value, source })
}

fn of_file(setting: &Setting) -> SettingInForce {
    let (name, source) = (setting.name.clone(), Some(setting.place.to_string()));
    SettingInForce { name, value: shown(&setting.value), source }
}

/// The default of an option; the help has one that depends on others.
fn default_of(arg: &Arg) -> Option<String> {
    match arg.get_default_values() {
        [value] => arg.get_action().takes_values().then(|| value.to_string_lossy().into_owned()),
        _ => {
            let help = arg.get_help()?.to_string();
            let (_, default) = help.split_once("[default: ")?;
            default.split_once(']').map(|(default, _)| default.to_owned())
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(values) => match &values[..] {
            [one] => shown(one),
            _ => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
        },
        Value::String(text) => quoted(&without_login(text)),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is_on) => is_on.to_string(),
        _ => String::new(),
    }
}

/// Switches and numbers need no quotes.
fn quoted(text: &str) -> String {
    if text.parse::<bool>().is_ok() || text.parse::<u32>().is_ok() {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[test]
fn a_password_is_not_shown() {
    assert_eq!(shown(&Value::from(vec!["redis://u:p@a", "etcd://b"])), "[\"redis://…@a\", \"etcd://b\"]");
}
