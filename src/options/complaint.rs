//! What is wrong with a command line, in words of our own, and the line that was meant.

use std::env;
use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::line::{Line, find, is_called, shown, subcommands};
use super::server_urls::has_login;
use super::suggestion::nearest;
use crate::error::Failure;

/// Long enough to recognise a value.
const LONGEST_VALUE: usize = 60;

/// What the parser found, and where.
struct Complaint<'a> {
    error: &'a clap::Error,
    line: &'a Line,
    root: &'a Command,
}

/// One line that says what is wrong and what would be right.
pub fn explain(error: &clap::Error, line: &Line, root: &Command) -> Failure {
    let complaint = Complaint { error, line, root };
    Failure::usage(match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            complaint.no_subcommand()
        }
        ErrorKind::InvalidSubcommand => complaint.unknown_subcommand(),
        ErrorKind::UnknownArgument => complaint.unknown_argument(),
        ErrorKind::MissingRequiredArgument => complaint.missing_argument(),
        ErrorKind::ArgumentConflict => complaint.conflict(),
        ErrorKind::InvalidUtf8 => complaint.not_utf8(),
        ErrorKind::InvalidValue => complaint.no_such_value(),
        ErrorKind::TooManyValues => {
            complaint.with_help(&format!("{} takes no value", complaint.typed_name(&complaint.argument())))
        }
        _ => complaint.bad_value(),
    })
}

impl Complaint<'_> {
    fn no_subcommand(&self) -> String {
        if self.line.options.is_empty() && self.line.command.is_empty() {
            return "there is no subcommand; try: redlock run -k KEY -- COMMAND, or redlock --help"
                .to_owned();
        }
        format!("there is no subcommand; try: {}", self.line.show())
    }

    fn unknown_subcommand(&self) -> String {
        let word = self.text(ContextKind::InvalidSubcommand);
        let what = format!("there is no subcommand {}", shown(word.as_ref()));
        match self.line.subcommand.as_deref() {
            Some("help") => format!("{what}; see: redlock --help"),
            Some(_) => format!("{what}; try: {}", self.line.show()),
            // A program, not a key.
            None if self.line.command.is_empty() || word.contains('/') => {
                format!("{what}; try: {}", self.line.with_whole_tail().show())
            }
            None => format!("{what}; try: {}", self.line.show()),
        }
    }

    fn unknown_argument(&self) -> String {
        let argument = self.argument();
        if !argument.starts_with('-') {
            let word = shown(argument.as_ref());
            return match self.line.meant() {
                name @ ("doctor" | "completions") => self.with_help(&format!("{name} takes no {word}")),
                _ => format!("{word} is out of place; try: {}", self.line.show()),
            };
        }
        let (subcommand, line) = (self.line.subcommand.as_deref(), self.line);
        let is_ours = |command: &&Command| {
            find(&argument, Some(command.get_name()), command).is_some_and(|arg| is_called(arg, &argument))
        };
        let what = format!("there is no option {}", shown(argument.as_ref()));
        let Some(command) = subcommand.and_then(|name| self.root.find_subcommand(name)) else {
            return match (subcommand, &line.words[..]) {
                (None, []) if line.command.is_empty() && !line.gives_key() => self.with_help(&what),
                _ => format!("there is no subcommand; try: {}", line.show()),
            };
        };
        let longs = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
        if let Some(near) = argument.strip_prefix("--").and_then(|name| nearest(name, longs)) {
            let ours = format!("--{near}");
            return format!("{what}; try: {}", line.with_option(&argument, &ours).show());
        }
        if command.get_name() == "run"
            && !line.tail.is_empty()
            && !line.gives_key()
            && !line.begins_with(&argument)
        {
            return format!("{what}; try: {}", line.with_whole_tail().show());
        }
        if let Some(other) = self.root.get_subcommands().find(|other| is_ours(other)) {
            let (other, own) = (other.get_name(), command.get_name());
            return format!("{argument} is an option of {other}, not of {own}; see: redlock {own} --help");
        }
        self.with_help(&what)
    }

    fn missing_argument(&self) -> String {
        let missing = match self.error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(names)) => names.join(" "),
            _ => String::new(),
        };
        let (key, command) = (missing.contains("--key"), missing.contains("COMMAND"));
        // A program or a line for the shell, and no key.
        let is_program = |line: &&Line| {
            line.words.first().is_some_and(|word| line.is_shell() || word.as_encoded_bytes().contains(&b'/'))
        };
        match (key, command) {
            (false, true) if Some(self.line).filter(is_program).is_some() => {
                format!("there is no key; try: {}", self.line.with_whole_tail().show())
            }
            (true, true) => format!("there is no key and no command; try: {}", self.line.show()),
            (true, false) => format!("there is no key; try: {}", self.line.show()),
            (false, true) => format!("there is no command; try: {}", self.line.show()),
            (false, false) => {
                let name: String = missing.chars().filter(|c| c.is_alphanumeric()).collect();
                self.with_help(&format!("{name} is missing"))
            }
        }
    }

    fn conflict(&self) -> String {
        let (one, other) = (self.typed_name(&self.argument()), self.text(ContextKind::PriorArg));
        let other = self.typed_name(&other);
        if other.is_empty() || one == other {
            return self.with_help(&format!("{one} is given twice"));
        }
        self.with_help(&format!("{one} cannot be used with {other}"))
    }

    /// The parser does not say which word it is.
    fn not_utf8(&self) -> String {
        let option = self
            .line
            .options
            .iter()
            .find(|option| option.value.as_ref().is_some_and(|value| value.to_str().is_none()));
        let word = self.line.words.iter().find(|word| word.to_str().is_none());
        let arguments = || self.root.get_subcommands().flat_map(Command::get_arguments);
        let variable = || {
            arguments()
                .filter_map(Arg::get_env)
                .find(|name| env::var_os(name).is_some_and(|value| value.to_str().is_none()))
        };
        let (whose, value) = match (option, word) {
            (Some(option), _) => (self.long_name(&option.name), option.shown().value),
            (None, Some(word)) => ("--key".to_owned(), Some(word.clone())),
            (None, None) => (variable().unwrap_or_default().to_string_lossy().into_owned(), None),
        };
        let what = value.map_or(whose.clone(), |value| format!("{whose} {}", shown(&value)));
        self.with_help(&format!("{what}: this is not UTF-8"))
    }

    /// A value that is none of a list, or missing.
    fn no_such_value(&self) -> String {
        let values = match self.error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) => values.join(", "),
            _ => String::new(),
        };
        let argument = self.argument();
        match self.text(ContextKind::InvalidValue).as_str() {
            "" if values.is_empty() => {
                self.with_help(&format!("{} needs a value", self.typed_name(&argument)))
            }
            "" => self.with_help(&format!("{} takes {values}", self.typed_name(&argument))),
            _ => self.with_help(&format!("{}: it takes {values}", self.value(&argument))),
        }
    }

    fn bad_value(&self) -> String {
        let why = self.error.source().map_or_else(|| "this cannot be read".to_owned(), ToString::to_string);
        self.with_help(&format!("{}: {why}", self.value(&self.argument())))
    }

    /// `--ttl soon`, or `REDLOCK_TTL=soon` where it comes from there.
    fn value(&self, argument: &str) -> String {
        let value = self.text(ContextKind::InvalidValue);
        let is_secret = argument.starts_with("--token ");
        let value = match value.char_indices().nth(LONGEST_VALUE) {
            _ if is_secret => None,
            Some((end, _)) if !has_login(value.as_ref()) => {
                Some(shown(format!("{}…", &value[..end]).as_ref()))
            }
            _ => Some(shown(value.as_ref())),
        };
        let name = self.typed_name(argument);
        match (self.variable(argument), value) {
            (Some(variable), Some(value)) => format!("{variable}={value}"),
            (Some(variable), None) => variable,
            (None, Some(value)) => format!("{name} {value}"),
            (None, None) => name,
        }
    }

    /// The variable from which the value of an option comes that is not on the line.
    fn variable(&self, argument: &str) -> Option<String> {
        let name = argument.split([' ', '=']).next()?;
        let arg = find(name, self.line.subcommand.as_deref(), self.root)?;
        let is_typed = self.line.options.iter().any(|option| is_called(arg, &option.name));
        let variable = arg.get_env().filter(|_| !is_typed)?;
        env::var_os(variable).map(|_| variable.to_string_lossy().into_owned())
    }

    /// `--ttl` of the parser's `--ttl <DURATION>`, `KEY` of its `[KEY]...`, and the variable where the value comes from
    /// there.
    fn typed_name(&self, argument: &str) -> String {
        if let Some(variable) = self.variable(argument) {
            return variable;
        }
        let name = argument.split([' ', '=', '[']).find(|part| !part.is_empty()).unwrap_or_default();
        name.trim_matches(|c| "[]<>.".contains(c)).to_owned()
    }

    fn long_name(&self, name: &str) -> String {
        let arg = find(name, self.line.subcommand.as_deref(), self.root);
        arg.and_then(Arg::get_long).map_or(name.to_owned(), |long| format!("--{long}"))
    }

    fn argument(&self) -> String {
        self.text(ContextKind::InvalidArg)
    }

    fn text(&self, kind: ContextKind) -> String {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// With the help of the subcommand that was meant.
    fn with_help(&self, what: &str) -> String {
        let known = |name: &&str| subcommands().any(|known| known == *name);
        match Some(self.line.meant()).filter(|_| self.line.subcommand.is_some()).filter(known) {
            Some(name) => format!("{what}; see: redlock {name} --help"),
            None => format!("{what}; see: redlock --help"),
        }
    }
}
