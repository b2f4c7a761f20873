//! The sections of configuration files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use toml::Value;

use super::value::words;
use crate::cli::switch;
use crate::options::key_pattern::KeyPattern;

/// Settings that contradict each other, see `conflicts_with` in [`crate::cli`].
pub const CONTRADICTIONS: [[&str; 2]; 2] = [["quiet", "verbose"], ["shared", "permits"]];

/// The same in files. On a command line, nothing undoes `tree`.
pub const FILE_CONTRADICTIONS: [[&str; 2]; 4] =
    [CONTRADICTIONS[0], CONTRADICTIONS[1], ["tree", "permits"], ["tree", "shared"]];

/// The calls that a section is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// Every call: the settings precede all sections.
    Every,
    /// `[servers.NAME]`: those that name this server.
    Server(String),
    /// `[keys."PATTERN"]`: those whose keys all match.
    Keys(KeyPattern),
    /// `[profiles.NAME]`: those with `--profile NAME`.
    Profile(String),
}

/// Settings of one file that belong together.
#[derive(Clone, Debug)]
pub struct Section {
    pub scope: Scope,
    pub settings: Vec<Setting>,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub name: String,
    pub value: Value,
    pub place: Place,
}

/// A line of a file, counted from 1.
#[derive(Clone, Debug)]
pub struct Place {
    pub path: Arc<Path>,
    pub line: usize,
}

impl Section {
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// True if it sets this, and not to `false`.
    pub fn asks_for(&self, name: &str) -> bool {
        self.setting(name).is_some_and(|setting| !setting.is_off())
    }
}

impl Setting {
    /// The id of the option that it sets.
    pub fn option(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The words that its option takes.
    pub fn words(&self) -> Vec<String> {
        words(&self.value)
    }

    /// With `server = []` a file names none.
    pub fn is_empty_list(&self) -> bool {
        self.value.as_array().is_some_and(Vec::is_empty)
    }

    fn is_off(&self) -> bool {
        match &self.value {
            Value::String(text) => switch(text) == Ok(false),
            Value::Integer(number) => *number == 0,
            Value::Boolean(is_on) => !is_on,
            _ => false,
        }
    }

    /// The one text, which may be the only one of a list.
    pub fn text(&self) -> Option<&str> {
        match self.value.as_array().map(Vec::as_slice) {
            Some([value]) => value.as_str(),
            _ => self.value.as_str(),
        }
    }
}

impl Scope {
    pub fn server(&self) -> Option<&str> {
        if let Scope::Server(name) = self { Some(name) } else { None }
    }

    pub fn pattern(&self) -> Option<&KeyPattern> {
        if let Scope::Keys(pattern) = self { Some(pattern) } else { None }
    }

    pub fn profile(&self) -> Option<&str> {
        if let Scope::Profile(name) = self { Some(name) } else { None }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Every => f.write_str("the file"),
            Scope::Server(name) => write!(f, "[servers.\"{name}\"]"),
            Scope::Keys(pattern) => write!(f, "[keys.\"{}\"]", pattern.as_str()),
            Scope::Profile(name) => write!(f, "[profiles.\"{name}\"]"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.name)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.path.display(), self.line)
    }
}
