//! A command line as it was typed, taken apart.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::LazyLock;

use clap::{Arg, Command, Subcommand};
use uuid::Uuid;

use super::server_urls::has_login;
use super::suggestion::nearest;
use super::typed_option::TypedOption;
use crate::cli;
use crate::quoting::quoted;

/// What other lock commands call a subcommand.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("lock", "acquire"),
    ("unlock", "release"),
    ("exec", "run"),
    ("list", "status"),
    ("ls", "status"),
    ("show", "status"),
    ("version", "--version"),
];

/// Those that have their key as an option or as a word, and no words else. The parser knows only when it has built them.
pub const WITH_KEY: [&str; 7] = ["run", "acquire", "renew", "check", "release", "break", "config"];

/// The names of the subcommands.
pub fn subcommands() -> impl Iterator<Item = &'static str> {
    static ROOT: LazyLock<Command> =
        LazyLock::new(|| cli::Command::augment_subcommands(Command::new("redlock")));
    ROOT.get_subcommands().map(Command::get_name)
}

/// The words of a command line, by their place.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// As typed: one of ours, a name that other lock commands have, or nearly one of ours.
    pub subcommand: Option<String>,
    pub options: Vec<TypedOption>,
    /// What is neither an option nor the command: the key, or what has no place.
    pub words: Vec<OsString>,
    pub command: Vec<OsString>,
    /// Everything from the first word on, as typed.
    pub tail: Vec<OsString>,
    /// How many of the options stand before the tail.
    pub options_before: usize,
    /// The command stands behind `--`.
    pub has_dashes: bool,
    /// The first word of the command stands behind a `--wait` without a value.
    pub follows_wait: bool,
    /// There is an option that redlock does not have: what stands behind it may be its value.
    pub has_unknown: bool,
    /// The first option of several letters with one dash, as Go's flags have it.
    pub one_dash: Option<String>,
    pub typed: Vec<OsString>,
}

impl Line {
    /// Reads the words behind the name of the program by the options that `root` and its subcommands have.
    pub fn read(typed: &[OsString], root: &Command) -> Line {
        let mut line = Line { typed: typed.to_vec(), ..Line::default() };
        let mut words = typed.iter();
        while let Some(word) = words.next() {
            match word.as_bytes() {
                b"--" => {
                    line.has_dashes = true;
                    line.command = words.cloned().collect();
                    break;
                }
                [b'-', b'-', ..] => line.read_long(word, &mut words, root),
                [b'-', _, ..] => line.read_short(word, &mut words, root),
                _ if line.is_subcommand(word, root) => {
                    line.subcommand = Some(word.to_string_lossy().into_owned());
                }
                _ => {
                    if line.words.is_empty() {
                        line.options_before = line.options.len();
                        line.tail = std::iter::once(word).chain(words.clone()).cloned().collect();
                    }
                    if line.has_command() && (!line.words.is_empty() || line.gives_key()) {
                        line.follows_wait = line.options.last().is_some_and(TypedOption::is_endless_wait);
                        line.command = std::iter::once(word).chain(words).cloned().collect();
                        break;
                    }
                    line.words.push(word.clone());
                }
            }
        }
        line
    }

    fn read_long<'a>(
        &mut self,
        word: &OsStr,
        rest: &mut (impl Iterator<Item = &'a OsString> + Clone),
        root: &Command,
    ) {
        let (name, value) = match word.as_bytes().iter().position(|byte| *byte == b'=') {
            Some(place) => (&word.as_bytes()[..place], Some(&word.as_bytes()[place + 1..])),
            None => (word.as_bytes(), None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let is_joint = value.is_some();
        let arg = find(&name, self.subcommand.as_deref(), root);
        self.has_unknown |= arg.is_none();
        let value = match value {
            Some(value) => Some(OsString::from_vec(value.to_vec())),
            None => next_value(arg, rest),
        };
        self.options.push(TypedOption { name, value, is_joint });
    }

    /// Several switches may stand in one word, and a value behind the last.
    fn read_short<'a>(
        &mut self,
        word: &OsStr,
        rest: &mut (impl Iterator<Item = &'a OsString> + Clone),
        root: &Command,
    ) {
        let letters = word.to_string_lossy().into_owned();
        if let Some(name) = with_one_dash(&letters, self.subcommand.as_deref(), root) {
            self.one_dash.get_or_insert_with(|| name.to_owned());
            return self.read_long(&OsString::from(format!("-{letters}")), rest, root);
        }
        for (place, letter) in letters.char_indices().skip(1) {
            let name = format!("-{letter}");
            let arg = find(&name, self.subcommand.as_deref(), root);
            let behind = word.as_bytes().get(place + letter.len_utf8()..).unwrap_or_default();
            self.has_unknown |= arg.is_none();
            let takes_value = arg.is_some_and(|arg| arg.get_action().takes_values());
            if !takes_value {
                self.options.push(TypedOption::new(&name, None));
                continue;
            }
            let value = match behind {
                [] => next_value(arg, rest),
                [b'=', value @ ..] | value => Some(OsString::from_vec(value.to_vec())),
            };
            return self.options.push(TypedOption::new(&name, value));
        }
    }

    fn is_subcommand(&self, word: &OsStr, root: &Command) -> bool {
        let Some(word) = word.to_str().filter(|_| self.subcommand.is_none() && self.words.is_empty()) else {
            return false;
        };
        root.find_subcommand(word).is_some()
            || OTHER_NAMES.iter().any(|(other, _)| *other == word)
            || nearest(word, subcommands()).is_some()
    }

    /// The subcommand that was meant.
    pub fn meant(&self) -> &str {
        let Some(typed) = self.subcommand.as_deref() else { return "run" };
        match OTHER_NAMES.iter().find(|(other, _)| *other == typed) {
            // `etcdctl lock KEY COMMAND`
            Some(("lock", _)) if !self.command.is_empty() => "run",
            Some((_, ours)) => ours,
            None => nearest(typed, subcommands()).unwrap_or(typed),
        }
    }

    /// Whether a word behind the key begins the command.
    fn has_command(&self) -> bool {
        self.subcommand.as_deref() == Some("lock") || self.meant() == "run"
    }

    pub fn gives_key(&self) -> bool {
        self.options.iter().any(|option| option.is_key() && option.value.is_some())
    }
}

/// The argument of this name in the subcommand, or in any; else the one in the subcommand that is nearly meant.
pub fn find<'a>(name: &str, subcommand: Option<&str>, root: &'a Command) -> Option<&'a Arg> {
    let own = subcommand.and_then(|name| root.find_subcommand(name));
    known(name, subcommand, root).or_else(|| {
        let near = nearest(name.strip_prefix("--")?, own?.get_arguments().filter_map(Arg::get_long))?;
        own?.get_arguments().find(|arg| arg.get_long() == Some(near))
    })
}

/// The argument of this name in the subcommand, or in any.
fn known<'a>(name: &str, subcommand: Option<&str>, root: &'a Command) -> Option<&'a Arg> {
    let own = subcommand.and_then(|name| root.find_subcommand(name));
    let mut commands = own.into_iter().chain([root]).chain(root.get_subcommands());
    commands.find_map(|command| command.get_arguments().find(|arg| is_called(arg, name)))
}

/// The name of a long option behind one dash, as Go's flags have it.
pub fn with_one_dash<'a>(word: &'a str, subcommand: Option<&str>, root: &Command) -> Option<&'a str> {
    let name = word.split('=').next().filter(|name| name.len() > 2 && !name.starts_with("--"))?;
    known(&format!("-{name}"), subcommand, root).map(|_| name)
}

/// Whether the argument has this name.
pub fn is_called(arg: &Arg, name: &str) -> bool {
    match name.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(&short.to_string()[..])),
    }
}

/// The next word, if it is the value of the option.
fn next_value<'a>(
    arg: Option<&Arg>,
    rest: &mut (impl Iterator<Item = &'a OsString> + Clone),
) -> Option<OsString> {
    let arg = arg.filter(|arg| arg.get_action().takes_values())?;
    let is_optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let next = rest.clone().next()?.as_bytes();
    let is_value = match next {
        // A number may be negative.
        [b'-', digit, ..] => digit.is_ascii_digit(),
        // `--wait KEY`: no duration begins with a letter.
        [first, ..] if is_optional => first.is_ascii_digit() || *first == b'.',
        _ => true,
    };
    if is_value { rest.next().cloned() } else { None }
}

/// The word for a message, as it can be given to a shell. An owner token or a login in the wrong place is not shown.
pub fn shown(word: &OsStr) -> String {
    match word {
        _ if is_token(word) => "TOKEN".to_owned(),
        _ if has_login(word) => "URL".to_owned(),
        _ => quoted(word),
    }
}

/// Whether it has the form of an owner token of redlock's own.
pub fn is_token(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| word.len() == 36 && Uuid::try_parse(word).is_ok())
}

#[test]
fn with_key_are_those_with_a_key_and_no_words() {
    let has_key = |command: &&Command| {
        let (words, options): (Vec<&Arg>, Vec<&Arg>) =
            command.get_arguments().partition(|arg| arg.is_positional());
        options.iter().any(|arg| arg.get_long() == Some("key")) && words.iter().all(|arg| arg.is_last_set())
    };
    let root = super::command_line::built();
    let found: Vec<&str> = root.get_subcommands().filter(has_key).map(Command::get_name).collect();
    assert_eq!(found, WITH_KEY);
}
