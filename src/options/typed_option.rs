//! An option on a command line, with its value.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::server_urls::has_login;

/// An option with its value.
#[derive(Clone, Debug)]
pub struct TypedOption {
    /// As typed: `--key`, `-k`.
    pub name: String,
    pub value: Option<OsString>,
    /// Typed as `--name=value`.
    pub is_joint: bool,
}

impl TypedOption {
    pub fn new(name: &str, value: Option<OsString>) -> TypedOption {
        TypedOption { name: name.to_owned(), value, is_joint: false }
    }

    pub fn key(value: &OsStr) -> TypedOption {
        TypedOption::new("-k", Some(value.to_owned()))
    }

    pub fn is_key(&self) -> bool {
        matches!(&self.name[..], "-k" | "--key")
    }

    /// The words of the option. A value that looks like an option belongs to its name.
    pub fn words(&self) -> Vec<OsString> {
        let Some(value) = &self.value else { return vec![OsString::from(&self.name)] };
        let joint = match (self.is_joint || value.as_bytes().starts_with(b"-"), self.name.starts_with("--")) {
            (false, _) => return vec![OsString::from(&self.name), value.clone()],
            (true, true) => "=",
            (true, false) => "",
        };
        let mut word = OsString::from(format!("{}{joint}", self.name));
        word.push(value);
        vec![word]
    }

    /// The same without what nobody is to read.
    pub fn shown(&self) -> TypedOption {
        let is_url = matches!(&self.name[..], "-S" | "--server");
        // Also misspelt: `--tokn`, `--passwort=`.
        let names = |secret: &str| self.name.starts_with(secret) && !self.name.ends_with("-file");
        let value = self.value.as_ref().map(|value| match value.as_bytes() {
            _ if names("--tok") => OsString::from("TOKEN"),
            _ if names("--pass") => OsString::from("PASSWORD"),
            bytes if has_login(value) || is_url && bytes.contains(&b'@') => OsString::from("URL"),
            _ => value.clone(),
        });
        TypedOption { value, ..self.clone() }
    }

    pub fn is_endless_wait(&self) -> bool {
        self.value.is_none() && matches!(&self.name[..], "-w" | "--wait")
    }
}
