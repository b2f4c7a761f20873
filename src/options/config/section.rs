//! The sections of configuration files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use glob::Pattern;
use toml::Value;

/// Which calls a section is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// All: its settings stand before any section.
    Every,
    /// `[servers.NAME]`: those that name this server.
    Server(String),
    /// `[keys."PATTERN"]`: those whose keys all match.
    Keys(Pattern),
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
    pub fn has(&self, setting: &str) -> bool {
        self.settings.iter().any(|own| own.name == setting)
    }
}

impl Scope {
    pub fn server(&self) -> Option<&str> {
        if let Scope::Server(name) = self { Some(name) } else { None }
    }

    pub fn pattern(&self) -> Option<&Pattern> {
        if let Scope::Keys(pattern) = self { Some(pattern) } else { None }
    }

    pub fn profile(&self) -> Option<&str> {
        if let Scope::Profile(name) = self { Some(name) } else { None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.path.display(), self.line)
    }
}
