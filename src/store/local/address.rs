//! The URL of the embedded store.

use std::fmt;
use std::path::{self, Path, PathBuf};

use super::file_access::default_path;
use super::health;
use super::share::share;
use super::store::{CAPABILITIES, Local};
use crate::doctor::{Finding, Requirements};
use crate::lock::{Capabilities, StoreAdmin, Timeout};
use crate::store::{Credentials, OpenOptions, StoreAddress};

/// A file on this host; `None` is the default one.
pub struct LocalAddress(Option<PathBuf>);

impl LocalAddress {
    /// Reads `local:[PATH]`. The path is absolute from then on. A path that only a shell would expand is refused: each
    /// folder from which redlock starts would have locks of its own.
    pub fn parse(text: &str) -> Result<LocalAddress, String> {
        let path = text.strip_prefix("local:").filter(|path| !path.is_empty());
        if path.is_some_and(|path| path.contains('\0') || path.starts_with(['~', '$'])) {
            return Err(format!("{text}: no shell reads this; a path looks like local:/var/lib/locks.db"));
        }
        let path = path.map(path::absolute).transpose();
        path.map(LocalAddress).map_err(|error| format!("cannot find out the current folder: {error}"))
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local:{}", self.0.as_deref().unwrap_or(Path::new("")).display())
    }
}

impl StoreAddress for LocalAddress {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn takes_login(&self) -> bool {
        false
    }

    fn refuses_others(&self) -> Option<String> {
        Some("local: cannot be one of several servers".to_owned())
    }

    fn examine(&self, _login: &Credentials, terms: &Requirements) -> Vec<Finding> {
        health::examine(self.0.clone(), terms)
    }

    fn share(&self, group: &str, timeout: &Timeout) -> Result<(), String> {
        let path = self.0.clone().map_or_else(default_path, Ok)?;
        share(&path, group, timeout)
    }

    fn open(&self, options: OpenOptions) -> Box<dyn StoreAdmin> {
        Box::new(Local::new(self.0.clone(), options.holders))
    }
}
