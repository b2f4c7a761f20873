//! The settings in force, and where each comes from.

use clap::{Arg, ArgMatches, Command};
use toml::Value;

use super::command_line::{built, parse_as};
use super::config::{CONTRADICTIONS, Setting};
use super::server_urls::without_login;
use super::{Config, Sources};
use crate::cli::switch;
use crate::report::SettingInForce;

/// What only some calls have, or what names the files themselves.
const NO_SETTINGS: [&str; 4] = ["keys", "token", "config", "profile"];
/// Each option with a variable is one of these.
const SUBCOMMANDS: [&str; 3] = ["run", "acquire", "check"];

/// What flags, variables and files say.
struct InForce<'a> {
    /// How the subcommands take flags and variables.
    parsed: Vec<ArgMatches>,
    files: &'a Config,
}

/// The settings in force, in the order of the help texts; last those that have no variable.
pub fn settings_in_force(files: &Config) -> anyhow::Result<Vec<SettingInForce>> {
    let parsed = SUBCOMMANDS.into_iter().map(parse_as).collect::<anyhow::Result<_>>()?;
    let in_force = InForce { parsed, files };
    let root = built();
    let mut options: Vec<&Arg> = Vec::new();
    for arg in root.get_arguments().chain(root.get_subcommands().flat_map(Command::get_arguments)) {
        let is_setting = arg.get_env().is_some() && !NO_SETTINGS.contains(&arg.get_id().as_str());
        if is_setting && options.iter().all(|seen| seen.get_id() != arg.get_id()) {
            options.push(arg);
        }
    }
    let has_option = |setting: &&Setting| options.iter().any(|arg| arg.get_long() == Some(&setting.name));
    let others = files.settings().filter(|setting| !has_option(setting)).map(of_file);
    Ok(options.iter().filter_map(|arg| in_force.of(arg)).chain(others).collect())
}

impl InForce<'_> {
    fn of(&self, arg: &Arg) -> Option<SettingInForce> {
        let name = arg.get_long()?;
        let setting = self.files.setting(name);
        if name == "server" && self.files.is_named_server {
            return setting.map(of_file);
        }
        match (self.given(arg.get_id().as_str()), setting) {
            (Some((words, source)), _) => {
                let value = if words.is_empty() { Value::from(true) } else { Value::from(words) };
                Some(SettingInForce { name: name.to_owned(), value: shown(&value), source: Some(source) })
            }
            (None, Some(setting)) if !self.is_undone(name) => Some(of_file(setting)),
            _ => {
                Some(SettingInForce { name: name.to_owned(), value: quoted(&default_of(arg)?), source: None })
            }
        }
    }

    /// The words of a flag or a variable, and what it is called.
    fn given(&self, option: &str) -> Option<(Vec<String>, String)> {
        self.parsed.iter().find_map(|matches| {
            let sources = Sources::of(matches);
            Some((sources.words(option)?, sources.name(option, None)))
        })
    }

    /// Whether a flag or a variable contradicts the setting of a file.
    fn is_undone(&self, name: &str) -> bool {
        let is_on = |(words, _): (Vec<String>, _)| words.iter().all(|word| switch(word) != Ok(false));
        let pairs = CONTRADICTIONS.into_iter().filter(|pair| pair.contains(&name)).flatten();
        pairs.filter(|other| *other != name).any(|other| self.given(other).is_some_and(is_on))
    }
}

fn of_file(setting: &Setting) -> SettingInForce {
    let (name, source) = (setting.name.clone(), Some(setting.place.to_string()));
    SettingInForce { name, value: shown(&setting.value), source }
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
