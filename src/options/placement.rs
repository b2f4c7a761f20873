//! The places of the words: the key as an option, the command behind `--`. What could mean two things is refused.

use std::ffi::OsString;

use super::line::{Line, WITH_KEY, is_token, shown, subcommands};
use super::typed_option::TypedOption;
use crate::error::Failure;

impl Line {
    /// The words as the parser takes them, with the key as an option and the command behind `--`. Where it is not
    /// certain what they mean the failure shows how to write it.
    pub fn canonical(&self) -> Result<Vec<OsString>, Failure> {
        if let Some(option) = &self.one_dash {
            return Err(self.refusal_of_one_dash(option));
        }
        // What stands behind it does not count.
        let is_version =
            self.options.first().is_some_and(|option| matches!(&option.name[..], "-V" | "--version"));
        match self.subcommand.as_deref() {
            _ if is_version => Ok(self.typed.clone()),
            Some("run") => self.canonical_run(),
            Some(name) if WITH_KEY.contains(&name) => self.canonical_owner(name),
            Some(name) if subcommands().any(|known| known == name) => Ok(self.with_words_in_front(name)),
            _ => Ok(self.typed.clone()),
        }
    }

    /// A word behind an option that lacks its value would become that.
    fn with_words_in_front(&self, name: &str) -> Vec<OsString> {
        let words = std::iter::once(OsString::from(name)).chain(self.words.iter().cloned());
        let options = self.options.iter().flat_map(TypedOption::words);
        let dashes = self.has_dashes.then(|| OsString::from("--"));
        words.chain(options).chain(dashes).chain(self.command.iter().cloned()).collect()
    }

    fn canonical_run(&self) -> Result<Vec<OsString>, Failure> {
        if self.follows_wait && self.gives_key() && self.command.get(1).is_some_and(|word| word == "--") {
            // A duration that cannot be read: the parser says so.
            return Ok(self.typed.clone());
        }
        if self.has_unknown && self.gives_key() {
            // The parser says so.
            return Ok(self.typed.clone());
        }
        if let [word, ..] = &self.words[..]
            && self.gives_key()
        {
            let word = shown(word);
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
            let what = format!("{} is a second key or the command", shown(word));
            return Err(Failure::usage(format!(
                "{what}; try: {}; or: {as_command}",
                keys.with_more_keys().show()
            )));
        }
        if self.is_shell() && self.command.len() > 1 {
            return Err(self.refusal_of_several_strings());
        }
        let mut words = vec![OsString::from("run")];
        words.extend(self.words.iter().map(|key| TypedOption::key(key)).flat_map(|key| key.words()));
        words.extend(self.options.iter().flat_map(TypedOption::words));
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
            [key] if !self.gives_key() => Ok(self.owner_words(name, &[TypedOption::key(key)])),
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

    fn owner_words(&self, name: &str, key: &[TypedOption]) -> Vec<OsString> {
        let options = key.iter().chain(&self.options).flat_map(TypedOption::words);
        std::iter::once(OsString::from(name)).chain(options).collect()
    }

    fn refusal_of_one_dash(&self, option: &str) -> Failure {
        if matches!(option, "-help" | "-version") {
            let subcommand = self.subcommand.iter().filter(|_| option == "-help").map(|_| self.meant());
            let words: Vec<&str> = std::iter::once("redlock").chain(subcommand).collect();
            return Failure::usage(format!("{option} needs two dashes; try: {} -{option}", words.join(" ")));
        }
        refused(&format!("{option} needs two dashes"), self)
    }

    pub fn is_shell(&self) -> bool {
        self.options.iter().any(|option| matches!(&option.name[..], "-c" | "--shell"))
    }

    /// As flock(1) has it: the words behind the string would be lost.
    pub fn refusal_of_several_strings(&self) -> Failure {
        refused("with -c the command is one string", &self.with_one_string())
    }
}

fn refused(what: &str, line: &Line) -> Failure {
    Failure::usage(format!("{what}; try: {}", line.show()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::sync::LazyLock;

    use clap::{Command, CommandFactory};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::cli::Cli;

    static ROOT: LazyLock<Command> = LazyLock::new(|| {
        let mut root = Cli::command();
        root.build();
        root
    });

    fn line(text: &str) -> Line {
        Line::read(&text.split(' ').map(OsString::from).collect::<Vec<_>>(), &ROOT)
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
            ("-S a status -S b x", "status x -S a -S b"),
            ("status x -S", "status x -S"),
            ("status --json -- -x y", "status --json -- -x y"),
            ("-V status", "-V status"),
            ("help run", "help run"),
        ] {
            let read = match line(typed).canonical() {
                Ok(words) => words.join(OsStr::new(" ")).to_string_lossy().into_owned(),
                Err(failure) => failure.to_string(),
            };
            assert_eq!(read, canonical, "{typed}");
        }
    }

    proptest! {
        /// Whatever was typed. What is right stays as it is when it is read once more.
        #[test]
        fn any_line_is_read(words in vec(select(&WORDS[..]), 0..8)) {
            let read = line(&words.join(" "));
            prop_assert!(read.show().starts_with("redlock "));
            if let Ok(words) = read.canonical() {
                let again = line(&words.join(OsStr::new(" ")).to_string_lossy());
                if again.canonical().is_ok_and(|once_more| once_more != words) {
                    prop_assert!(false, "{words:?} {:?}", again.canonical());
                }
            }
        }
    }

    const WORDS: [&str; 24] = [
        "run", "acquire", "break", "status", "lock", "relaese", "x", "y", "5", "-k", "--key=x", "-kx",
        "--wait", "-w5", "-vn", "-c", "--", "-", "--tll", "--ttl", "-é", "--=", "-p", "help",
    ];

    #[test]
    fn secrets_are_not_shown() {
        let token = "68413f2f-8e0b-49a8-8a46-e268c50c52f7";
        for text in [
            format!("release x {token}"),
            format!("check {token}"),
            format!("release -k x --token {token} y"),
            format!("run -k x -S redis://u:{token}@h a -- b"),
            format!("run -k x --sever redis://u:{token}@h a -- b"),
        ] {
            let failure =
                line(&text).canonical().err().map(|failure| failure.to_string()).unwrap_or_default();
            assert!(failure.contains("try: redlock ") && !failure.contains(token), "{text}: {failure}");
        }
    }
}
