//! The settings in force, as lines of a configuration file: each with its source, and the defaults as comments.

use super::width::{pad, widest};
use crate::sanitize::sanitize;

/// A setting and its value, for people to read.
pub struct SettingInForce {
    pub name: String,
    /// As it may stand in a configuration file, without a password.
    pub value: String,
    /// A flag, a variable, or a line of a file; `None` for the default.
    pub source: Option<String>,
}

/// The lines of these settings.
pub fn settings(settings: &[SettingInForce]) -> String {
    let line = |SettingInForce { name, value, source }: &SettingInForce| match source {
        Some(_) => sanitize(&format!("{name} = {value}")),
        None => sanitize(&format!("# {name} = {value}")),
    };
    let lines: Vec<String> = settings.iter().map(line).collect();
    let width = widest(lines.iter().filter(|line| !line.starts_with('#')).map(String::as_str));
    let with_source = |(line, setting): (&String, &SettingInForce)| match &setting.source {
        Some(source) => format!("{}  # {}\n", pad(line, width), sanitize(source)),
        None => format!("{line}\n"),
    };
    lines.iter().zip(settings).map(with_source).collect()
}
