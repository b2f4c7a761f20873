//! The settings in force, and where each comes from.

use std::collections::BTreeSet;
use std::env;

use clap::{Arg, Command};
use toml::Value;

use super::server_urls::without_login;
use super::{Config, Sources};
use crate::report::SettingInForce;

/// What only some calls have, or what names the files themselves.
const NO_SETTINGS: [&str; 4] = ["keys", "token", "config", "profile"];

/// The settings in force, in the order of the help texts; last those that have no option.
pub fn settings_in_force(root: &Command, sources: Sources, files: &Config) -> Vec<SettingInForce> {
    let mut seen = BTreeSet::from(NO_SETTINGS);
    let of_subcommands = root.get_subcommands().flat_map(Command::get_arguments);
    let options = root.get_arguments().chain(of_subcommands);
    let mut settings: Vec<SettingInForce> = options
        .filter(|arg| arg.get_env().is_some() && seen.insert(arg.get_id().as_str()))
        .filter_map(|arg| in_force(arg, sources, files))
        .collect();
    if let Some(prefix) = files.setting("key-prefix") {
        let (name, source) = (prefix.name.clone(), Some(prefix.place.to_string()));
        settings.push(SettingInForce { name, value: shown(&prefix.value), source });
    }
    settings
}

fn in_force(arg: &Arg, sources: Sources, files: &Config) -> Option<SettingInForce> {
    let name = arg.get_long()?.to_owned();
    let found = |value: String, source: String| {
        Some(SettingInForce { name: name.clone(), value, source: Some(source) })
    };
    let variable = arg.get_env().and_then(|name| Some((name, env::var(name).ok()?)));
    let setting = files.setting(&name);
    match (sources.flag(arg.get_id().as_str()), variable, setting) {
        _ if name == "server" && files.is_named_server => {
            let source = setting.map_or(String::new(), |setting| setting.place.to_string());
            found(shown(&Value::from(files.server.clone())), source)
        }
        (Some(words), _, _) if words.is_empty() => found(true.to_string(), format!("--{name}")),
        (Some(words), _, _) => found(shown(&Value::from(words)), format!("--{name}")),
        (None, Some((variable, value)), _) if !value.is_empty() => {
            found(shown(&Value::from(value)), variable.to_string_lossy().into_owned())
        }
        (_, _, Some(setting)) => found(shown(&setting.value), setting.place.to_string()),
        _ => Some(SettingInForce { value: quoted(&default_of(arg)?), name, source: None }),
    }
}

/// As the help text says it.
fn default_of(arg: &Arg) -> Option<String> {
    let help = arg.get_help()?.to_string();
    let (_, default) = help.split_once("[default: ")?;
    default.split_once(']').map(|(default, _)| default.to_owned())
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
