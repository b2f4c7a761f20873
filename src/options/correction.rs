//! The line that was meant, as it can be given to a shell.

use std::ffi::{OsStr, OsString};

use super::line::{Line, WITH_KEY, is_token, shown};
use super::typed_option::TypedOption;

impl Line {
    /// Every word is a key.
    pub fn with_more_keys(&self) -> Line {
        let keys = self.words.iter().map(|word| TypedOption::key(word));
        Line { options: keys.chain(self.options.clone()).collect(), words: Vec::new(), ..self.clone() }
    }

    /// The words are the command.
    pub fn with_tail(&self) -> Line {
        let command = [&self.words[..], &self.command].concat();
        Line { words: Vec::new(), command, ..self.clone() }
    }

    /// The words and what follows them, options too, are the command.
    pub fn with_whole_tail(&self) -> Line {
        Line {
            subcommand: self.subcommand.clone(),
            options: self.options[..self.options_before].to_vec(),
            command: self.tail.clone(),
            ..Line::default()
        }
    }

    /// Whether this option stands in front of the first word.
    pub fn begins_with(&self, option: &str) -> bool {
        self.options[..self.options_before].iter().any(|given| given.name == option)
    }

    /// The first word that is no owner token is the key.
    pub fn with_token(&self) -> Line {
        let words = [&self.words[..], &self.command[..]].concat();
        let key = words.iter().find(|word| !is_token(word)).cloned();
        let mut line = Line { words: key.into_iter().collect(), command: Vec::new(), ..self.clone() };
        line.options.retain(|option| option.name != "--token");
        line.options.push(TypedOption::new("--token", Some(OsString::from("TOKEN"))));
        line
    }

    /// The command is for the shell.
    pub fn with_shell(&self) -> Line {
        let mut line = self.clone();
        line.options.push(TypedOption::new("-c", None));
        line
    }

    pub fn with_one_string(&self) -> Line {
        let words: Vec<&OsStr> = self.command.iter().map(|word| &word[..]).collect();
        Line { command: vec![words.join(OsStr::new(" "))], ..self.clone() }
    }

    /// With another name for an option. What was typed for a file with a secret may be the secret.
    pub fn with_option(&self, typed: &str, ours: &str) -> Line {
        let mut line = self.clone();
        for option in line.options.iter_mut().filter(|option| option.name == typed) {
            option.name = ours.to_owned();
            if ours.ends_with("password-file") || ours == "--token-file" {
                option.value = Some(OsString::from("FILE"));
            }
        }
        line
    }

    /// The line as it can be given to a shell, with KEY and COMMAND for what is missing, and without what nobody is to read.
    pub fn show(&self) -> String {
        let name = self.meant();
        let mut words = vec!["redlock".to_owned(), name.to_owned()];
        let mut add = |word: &OsStr| words.push(shown(word));
        match self.words.first() {
            Some(word) if WITH_KEY.contains(&name) => {
                TypedOption::key(word).words().iter().for_each(|word| add(word));
            }
            None if WITH_KEY.contains(&name) && !self.gives_key() => {
                ["-k", "KEY"].iter().for_each(|word| add(OsStr::new(word)));
            }
            _ => self.words.iter().for_each(|word| add(word)),
        }
        self.options.iter().flat_map(|option| option.shown().words()).for_each(|word| add(&word));
        if name == "run" {
            add(OsStr::new("--"));
            if self.command.is_empty() {
                add(OsStr::new("COMMAND"));
            }
            self.command.iter().for_each(|word| add(word));
        }
        words.join(" ")
    }
}
