//! A command line as it was typed, taken apart, and put together again as it should be.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command};
use uuid::Uuid;

use super::suggestion::nearest;
use crate::error::Failure;
use crate::quoting::quoted;

/// What other lock commands call a subcommand.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("lock", "acquire"),
    ("unlock", "release"),
    ("exec", "run"),
    ("list", "status"),
    ("ls", "status"),
    ("show", "status"),
];

/// Those that have their key as an option or as a word, and no words else.
pub const WITH_KEY: [&str; 6] = ["run", "acquire", "renew", "check", "release", "break"];

/// The words of a command line, by their place.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// As typed: one of ours, a name that other lock commands have, or nearly one of ours.
    pub subcommand: Option<String>,
    pub options: Vec<Given>,
    /// What is neither an option nor the command: the key, or what has no place.
    pub words: Vec<OsString>,
    pub command: Vec<OsString>,
    /// Everything from the first word on, as typed.
    pub tail: Vec<OsString>,
    /// How many of the options stand before the tail.
    options_before: usize,
    /// The command stands behind `--`.
    pub has_dashes: bool,
    /// The first word of the command stands behind a `--wait` without a value.
    follows_wait: bool,
    typed: Vec<OsString>,
}

/// An option with its value.
#[derive(Clone, Debug)]
pub struct Given {
    /// As typed: `--key`, `-k`.
    pub name: String,
    pub value: Option<OsString>,
    /// Typed as `--name=value`.
    is_joint: bool,
}

impl Given {
    fn new(name: &str, value: Option<OsString>) -> Given {
        Given { name: name.to_owned(), value, is_joint: false }
    }

    fn key(value: &OsStr) -> Given {
        Given::new("-k", Some(value.to_owned()))
    }

    fn is_key(&self) -> bool {
        matches!(&self.name[..], "-k" | "--key")
    }

    /// The words of the option. A value that looks like an option belongs to its name.
    fn words(&self) -> Vec<OsString> {
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
    fn shown(&self) -> Given {
        let is_url = matches!(&self.name[..], "-S" | "--server");
        let value = self.value.as_ref().map(|value| match value.to_str() {
            _ if self.name == "--token" => OsString::from("TOKEN"),
            Some(url) if is_url && url.contains('@') => OsString::from("URL"),
            _ => value.clone(),
        });
        Given { value, ..self.clone() }
    }
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
                        line.follows_wait = line.options.last().is_some_and(Given::is_endless_wait);
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
        let value = match value {
            Some(value) => Some(OsString::from_vec(value.to_vec())),
            None => next_value(find(&name, self.subcommand.as_deref(), root), rest),
        };
        self.options.push(Given { name, value, is_joint });
    }

    /// Several switches may stand in one word, and a value behind the last.
    fn read_short<'a>(
        &mut self,
        word: &OsStr,
        rest: &mut (impl Iterator<Item = &'a OsString> + Clone),
        root: &Command,
    ) {
        let letters = word.to_string_lossy().into_owned();
        for (place, letter) in letters.char_indices().skip(1) {
            let name = format!("-{letter}");
            let arg = find(&name, self.subcommand.as_deref(), root);
            let behind = word.as_bytes().get(place + letter.len_utf8()..).unwrap_or_default();
            let takes_value = arg.is_some_and(|arg| arg.get_action().takes_values());
            if !takes_value {
                self.options.push(Given::new(&name, None));
                continue;
            }
            let value = match behind {
                [] => next_value(arg, rest),
                [b'=', value @ ..] | value => Some(OsString::from_vec(value.to_vec())),
            };
            return self.options.push(Given::new(&name, value));
        }
    }

    fn is_subcommand(&self, word: &OsStr, root: &Command) -> bool {
        let Some(word) = word.to_str().filter(|_| self.subcommand.is_none() && self.words.is_empty()) else {
            return false;
        };
        root.find_subcommand(word).is_some()
            || OTHER_NAMES.iter().any(|(other, _)| *other == word)
            || nearest(word, WITH_KEY.into_iter().chain(["status", "doctor", "completions"])).is_some()
    }

    /// The subcommand that was meant.
    pub fn meant(&self) -> &str {
        let Some(typed) = self.subcommand.as_deref() else { return "run" };
        match OTHER_NAMES.iter().find(|(other, _)| *other == typed) {
            // `etcdctl lock KEY COMMAND`
            Some(("lock", _)) if !self.command.is_empty() => "run",
            Some((_, ours)) => ours,
            None => nearest(typed, WITH_KEY.into_iter().chain(["status", "doctor", "completions"]))
                .unwrap_or(typed),
        }
    }

    /// Whether a word behind the key begins the command.
    fn has_command(&self) -> bool {
        self.subcommand.as_deref() == Some("lock") || self.meant() == "run"
    }

    pub fn gives_key(&self) -> bool {
        self.options.iter().any(Given::is_key)
    }

    /// The words as the parser takes them, with the key as an option and the command behind `--`. Where it is not
    /// certain what they mean the failure shows how to write it.
    pub fn canonical(&self) -> Result<Vec<OsString>, Failure> {
        match self.subcommand.as_deref() {
            Some("run") => self.canonical_run(),
            Some(name) if WITH_KEY.contains(&name) => self.canonical_owner(name),
            _ => Ok(self.typed.clone()),
        }
    }

    fn canonical_run(&self) -> Result<Vec<OsString>, Failure> {
        if self.follows_wait && self.gives_key() && self.command.get(1).is_some_and(|word| word == "--") {
            // A duration that cannot be read: the parser says so.
            return Ok(self.typed.clone());
        }
        if let [word, ..] = &self.words[..]
            && self.gives_key()
        {
            let word = quoted(word);
            return Err(match self.has_dashes {
                true => {
                    refused(&format!("{word} is a second key, or it is out of place"), &self.with_more_keys())
                }
                false => {
                    refused(&format!("with -k, {word} is the command or out of place"), &self.with_tail())
                }
            });
        }
        if let [word, dashes, ..] = &self.command[..]
            && !self.has_dashes
            && dashes == "--"
        {
            let keys = Line {
                words: [&self.words[..], std::slice::from_ref(word)].concat(),
                command: self.command[2..].to_vec(),
                ..self.clone()
            };
            let as_command = self.show();
            let what = format!("{} is a second key or the command", quoted(word));
            return Err(Failure::usage(format!(
                "{what}; try: {}; or: {as_command}",
                keys.with_more_keys().show()
            )));
        }
        if self.is_shell() && self.command.len() > 1 {
            return Err(self.refusal_of_several_strings());
        }
        let mut words = vec![OsString::from("run")];
        words.extend(self.words.iter().map(|key| Given::key(key)).flat_map(|key| key.words()));
        words.extend(self.options.iter().flat_map(Given::words));
        if !self.command.is_empty() || self.has_dashes {
            words.push(OsString::from("--"));
            words.extend(self.command.iter().cloned());
        }
        Ok(words)
    }

    fn canonical_owner(&self, name: &str) -> Result<Vec<OsString>, Failure> {
        let words = [&self.words[..], &self.command[..]].concat();
        if words.iter().any(|word| is_token(word)) {
            return Err(match name {
                "acquire" => refused("an owner token is no key", &Line { words: Vec::new(), ..self.clone() }),
                _ => refused("an owner token is given with --token", &self.with_token()),
            });
        }
        match &words[..] {
            [] => Ok(self.owner_words(name, &[])),
            [key] if !self.gives_key() => Ok(self.owner_words(name, &[Given::key(key)])),
            _ if name == "acquire" && self.has_dashes => {
                Err(refused("acquire starts no command", &Line { subcommand: None, ..self.clone() }))
            }
            [word, ..] if name == "break" => {
                let one = match self.gives_key() {
                    true => Line { words: Vec::new(), command: Vec::new(), ..self.clone() },
                    false => Line { words: vec![word.clone()], command: Vec::new(), ..self.clone() },
                };
                Err(refused("break takes one key", &one))
            }
            _ => Err(refused("of several keys, each has its own -k", &self.with_more_keys())),
        }
    }

    fn owner_words(&self, name: &str, key: &[Given]) -> Vec<OsString> {
        let options = key.iter().chain(&self.options).flat_map(Given::words);
        std::iter::once(OsString::from(name)).chain(options).collect()
    }

    fn is_shell(&self) -> bool {
        self.options.iter().any(|option| matches!(&option.name[..], "-c" | "--shell"))
    }

    /// As flock(1) has it: the words behind the string would be lost.
    pub fn refusal_of_several_strings(&self) -> Failure {
        refused("with -c the command is one string", &self.with_one_string())
    }

    /// Every word is a key.
    fn with_more_keys(&self) -> Line {
        let keys = self.words.iter().map(|word| Given::key(word));
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

    /// The first word that is no owner token is the key.
    fn with_token(&self) -> Line {
        let words = [&self.words[..], &self.command[..]].concat();
        let key = words.iter().find(|word| !is_token(word)).cloned();
        let mut line = Line { words: key.into_iter().collect(), command: Vec::new(), ..self.clone() };
        line.options.retain(|option| option.name != "--token");
        line.options.push(Given::new("--token", Some(OsString::from("TOKEN"))));
        line
    }

    fn with_one_string(&self) -> Line {
        let words: Vec<&OsStr> = self.command.iter().map(|word| &word[..]).collect();
        Line { command: vec![words.join(OsStr::new(" "))], ..self.clone() }
    }

    /// With another name for an option.
    pub fn with_option(&self, typed: &str, ours: &str) -> Line {
        let rename = |option: &Given| Given {
            name: if option.name == typed { ours.to_owned() } else { option.name.clone() },
            ..option.clone()
        };
        Line { options: self.options.iter().map(rename).collect(), ..self.clone() }
    }

    /// The line as it can be given to a shell, with KEY and COMMAND for what is missing. Owner tokens, and URLs with a
    /// login, are not in it.
    pub fn show(&self) -> String {
        let name = self.meant();
        let mut words = vec!["redlock".to_owned(), name.to_owned()];
        let mut add =
            |word: &OsStr| words.push(if is_token(word) { "TOKEN".to_owned() } else { quoted(word) });
        match self.words.first() {
            Some(word) if WITH_KEY.contains(&name) => {
                Given::key(word).words().iter().for_each(|word| add(word));
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

impl Given {
    fn is_endless_wait(&self) -> bool {
        self.value.is_none() && matches!(&self.name[..], "-w" | "--wait")
    }
}

/// The argument of this name in the subcommand, in that which is nearly meant, or in any.
pub fn find<'a>(name: &str, subcommand: Option<&str>, root: &'a Command) -> Option<&'a Arg> {
    let own = subcommand.and_then(|name| root.find_subcommand(name));
    let commands = || own.into_iter().chain([root]).chain(root.get_subcommands());
    let found = commands().find_map(|command| command.get_arguments().find(|arg| is_called(arg, name)));
    found.or_else(|| {
        let near = nearest(name.strip_prefix("--")?, own?.get_arguments().filter_map(Arg::get_long))?;
        own?.get_arguments().find(|arg| arg.get_long() == Some(near))
    })
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

/// Whether it has the form of an owner token of redlock's own.
pub fn is_token(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| word.len() == 36 && Uuid::try_parse(word).is_ok())
}

fn refused(what: &str, line: &Line) -> Failure {
    Failure::usage(format!("{what}; try: {}", line.show()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn line(text: &str) -> Line {
        let mut root = Cli::command();
        root.build();
        Line::read(&text.split(' ').map(OsString::from).collect::<Vec<_>>(), &root)
    }

    #[test]
    fn the_key_and_the_command_find_their_places() {
        for (typed, canonical) in [
            ("run x -- true", "run -k x -- true"),
            ("run x sleep 5", "run -k x -- sleep 5"),
            ("run -k x ls -l", "run -k x -- ls -l"),
            ("run x timeout 5 sleep --help", "run -k x -- timeout 5 sleep --help"),
            ("run x --ttl 5s sleep -k 1", "run -k x --ttl 5s -- sleep -k 1"),
            ("run -n F true", "run -k F -n -- true"),
            ("run -w 5 F true", "run -k F -w 5 -- true"),
            ("run -w F true", "run -k F -w -- true"),
            ("run -w5 F true", "run -k F -w 5 -- true"),
            ("run -p -1 F true", "run -k F -p-1 -- true"),
            ("run -vnk F true", "run -v -n -k F -- true"),
            ("run F -c true", "run -k F -c -- true"),
            ("-S local: run F true", "run -k F -S local: -- true"),
            ("run --ttl=5s x nice -n 5 -- true", "run -k x --ttl=5s -- nice -n 5 -- true"),
            ("run x --", "run -k x --"),
            ("run -k x", "run -k x"),
            ("acquire x --wait", "acquire -k x --wait"),
            ("break -- -x", "break -k-x"),
            ("release", "release"),
            ("status x y", "status x y"),
            ("help run", "help run"),
        ] {
            let read = match line(typed).canonical() {
                Ok(words) => words.join(OsStr::new(" ")).to_string_lossy().into_owned(),
                Err(failure) => failure.to_string(),
            };
            assert_eq!(read, canonical, "{typed}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let token = "68413f2f-8e0b-49a8-8a46-e268c50c52f7";
        for text in [
            format!("release x {token}"),
            format!("check {token}"),
            format!("release -k x --token {token} y"),
            format!("run -k x -S redis://u:{token}@h a -- b"),
        ] {
            let failure =
                line(&text).canonical().err().map(|failure| failure.to_string()).unwrap_or_default();
            assert!(failure.contains("try: redlock ") && !failure.contains(token), "{text}: {failure}");
        }
    }
}
