//! The words of a command line, and what clap reads of them.
//!
//! clap reads it by one rule, that of flock(1), env(1) and nice(1): options come before the first word of the command.
//! Two words belong to an option without saying so: the first one is the key, unless -k gave it, and a duration after
//! `--wait` is its value. Each is joined to its option, and clap reads the line again.

use std::env;
use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, Id, Subcommand};

use super::complaint::{is_token, refuse, shown};
use super::config::Config;
use super::declared::conflicts;
use super::help::read_for_help;
use super::sources::Sources;
use super::variables::{is_unset, without_variables};
use crate::cli::{self, Cli, GlobalArgs};
use crate::error::Failure;
use crate::lock::{DurationText, Key};

const TOKEN: &str = "an owner token is not a key; give it with --token-file, or in REDLOCK_TOKEN";
const OWN: &str = "give each of several keys with its own -k";

/// A command line that was read.
pub struct ReadLine {
    pub(super) line: Line,
    pub matches: ArgMatches,
}

impl ReadLine {
    /// Reads the line once more, with the settings of the files as defaults.
    pub fn with_defaults(mut self, files: &Config) -> anyhow::Result<ArgMatches> {
        if files.is_empty() {
            return Ok(self.matches);
        }
        // clap keeps what is never dropped, as it keeps the literals of a program.
        let kept = |word: String| -> &'static str { Box::leak(word.into_boxed_str()) };
        // The timeout of `wait` is not that of a command, and the permits of `resize` are not those of a run.
        let is_setting = |arg: &Arg| arg.get_id() != "wait_timeout" && arg.get_id() != "new_permits";
        let set =
            |arg: Arg| match arg.get_long().filter(|_| is_setting(&arg)).and_then(|name| files.setting(name))
            {
                Some(setting) => arg.default_values(setting.words().into_iter().map(kept)),
                None => arg,
            };
        let root = self.line.root.clone();
        *self.line.root = root.mut_subcommands(|subcommand| subcommand.mut_args(set));
        Ok(self.line.matches()?)
    }
}

/// The words of a command line, with the subcommand that they name.
pub struct Line {
    pub(super) words: Vec<OsString>,
    /// Only this subcommand is built. It is never dropped, which would take longer than it is worth.
    root: &'static mut Command,
    /// The word that is the key.
    key: Option<OsString>,
}

impl Line {
    /// Without a subcommand the line is a request for help, or wrong.
    pub(super) fn new(words: Vec<OsString>) -> anyhow::Result<Line> {
        let all = cli::Command::augment_subcommands(Command::new("redlock"));
        let Some(subcommand) = words.get(1).and_then(|name| all.find_subcommand(name)) else {
            words.get(1).map_or(Ok(()), |word| refuse_other_dash(word, "run"))?;
            let missing = || clap::Error::new(ErrorKind::MissingSubcommand).with_cmd(&Cli::command());
            return Err(read_for_help(&words).err().unwrap_or_else(missing).into());
        };
        let mut subcommand = GlobalArgs::augment_args(subcommand.clone());
        if subcommand.get_name() == "config" {
            // It shows what the variables mean for the other subcommands.
            let others = cli::settings().iter().filter(|arg| !arg.is_global_set());
            subcommand = subcommand.args(others.map(|arg| arg.clone().hide(true)));
        }
        let mut root = Command::new("redlock").subcommand(subcommand);
        root.build();
        let is_ours = |(name, _): (OsString, _)| name.as_encoded_bytes().starts_with(b"REDLOCK_");
        if env::vars_os().any(is_ours) {
            root = without_variables(root, &is_unset);
        }
        let mut line = Line { words, root: Box::leak(Box::new(root)), key: None };
        line.words.get(2).map_or(Ok(()), |word| refuse_other_dash(word, &line.name()))?;
        let is_key = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-") && !is_token(word);
        if line.words.get(2).is_some_and(is_key) && line.options().any(|arg| arg.get_id() == "rest") {
            line.take_key(2);
        }
        Ok(line)
    }

    /// The word is the key.
    fn take_key(&mut self, place: usize) {
        let mut option = OsString::from("--key=");
        option.push(&self.words[place]);
        self.key = Some(std::mem::replace(&mut self.words[place], option));
    }

    /// Reads the line until each word has its place.
    pub(super) fn read(mut self) -> anyhow::Result<ReadLine> {
        loop {
            // `-shell` would show the help.
            let is_word = |word: &OsString| word == "--" || !word.as_encoded_bytes().starts_with(b"-");
            self.refuse_one_dash(
                self.words.iter().skip(2).position(is_word).map_or(self.words.len(), |at| at + 2),
            )?;
            let matches = match self.matches() {
                Err(error) if error.kind() == ErrorKind::UnknownArgument && self.separate_limit() => continue,
                Err(error) if error.kind() == ErrorKind::DisplayHelp => read_for_help(&self.words)?,
                matches => matches?,
            };
            let (name, options) = matches.subcommand().unwrap_or(("", &matches));
            let rest = options.try_get_raw("rest").ok().flatten().map_or(0, Iterator::count);
            let place = self.words.len() - rest;
            self.refuse_one_dash(place)?;
            let is_behind_dashes = self.words[place - 1] == "--";
            let starts_command = name == "run" && is_behind_dashes;
            let Some(first) = self.words.get(place).filter(|_| !starts_command) else {
                self.check(name, &matches, place)?;
                return Ok(ReadLine { line: self, matches });
            };
            let is_duration = || first.to_str().is_some_and(|word| word.parse::<DurationText>().is_ok());
            if !is_behind_dashes && self.waits_at(place - 1) && is_duration() {
                let limit = self.words.remove(place);
                self.words[place - 1].push("=");
                self.words[place - 1].push(limit);
                continue;
            }
            if !is_behind_dashes {
                refuse_other_dash(first, name)?;
            }
            if ["keys", "pool"].iter().any(|option| Sources::of(&matches).is_flag(option)) {
                self.check(name, &matches, place)?;
                return Ok(ReadLine { line: self, matches });
            }
            if is_token(first) {
                return Err(refuse(TOKEN, name).into());
            }
            self.take_key(place);
            if is_behind_dashes {
                self.words.remove(place - 1);
            }
        }
    }

    fn matches(&mut self) -> Result<ArgMatches, clap::Error> {
        match self.root.try_get_matches_from_mut(&self.words) {
            Err(error) if error.kind() == ErrorKind::ArgumentConflict => {
                let conflicts = conflicts(self.root);
                let may_conflict =
                    |arg: &Arg| conflicts.iter().flatten().any(|option| arg.get_id() == option);
                let flags =
                    without_variables(self.root.clone(), &may_conflict).try_get_matches_from(&self.words)?;
                let is_flag = |option: &Id| Sources::of(&flags).is_flag(option.as_str());
                let is_overruled = |arg: &Arg| {
                    conflicts.iter().any(|[one, other]| {
                        (arg.get_id() == one && is_flag(other)) || (arg.get_id() == other && is_flag(one))
                    })
                };
                *self.root = without_variables(self.root.clone(), &is_overruled);
                self.root.try_get_matches_from_mut(&self.words)
            }
            matches => matches,
        }
    }

    fn options(&self) -> impl Iterator<Item = &Arg> {
        self.root.get_subcommands().flat_map(Command::get_arguments)
    }

    fn has(&self, option: &str) -> bool {
        self.options().any(|arg| arg.get_id() == option)
    }

    /// `-key X`, as Go's flags have it, is `-k ey` for clap: a key that nobody meant.
    fn refuse_one_dash(&self, end: usize) -> Result<(), Failure> {
        let long = |word: &OsString| {
            let word = word.to_str()?.strip_prefix('-')?.split('=').next()?.to_owned();
            self.options().any(|arg| word.len() > 1 && arg.get_long() == Some(&word)).then_some(word)
        };
        match self.words[2..end].iter().find_map(long) {
            Some(name) => Err(refuse(&format!("-{name} needs two dashes: --{name}"), &self.name())),
            None => Ok(()),
        }
    }

    fn name(&self) -> String {
        self.words[1].to_string_lossy().into_owned()
    }

    /// Makes `-w=5s` of `-w5s`, as flock(1) has it. False if there is none.
    fn separate_limit(&mut self) -> bool {
        let place_of_limit = |word: &OsString| {
            let (switches, limit) = word.to_str()?.strip_prefix('-')?.split_once('w')?;
            let is_limit = limit.parse::<DurationText>().is_ok() && self.are_switches(switches);
            is_limit.then_some(switches.len() + 2)
        };
        let mut places = self.words.iter().enumerate().skip(2);
        let Some((at, place)) = places.find_map(|(at, word)| Some((at, place_of_limit(word)?))) else {
            return false;
        };
        let word = self.words[at].to_string_lossy();
        self.words[at] = format!("{}={}", &word[..place], &word[place..]).into();
        true
    }

    fn are_switches(&self, letters: &str) -> bool {
        letters.chars().all(|letter| {
            self.options().any(|arg| arg.get_short() == Some(letter) && !arg.get_action().takes_values())
        })
    }

    /// True if the word is a `--wait` without a value, or switches that end with `w`.
    fn waits_at(&self, place: usize) -> bool {
        let waits = |word: &str| match word.strip_prefix('-').and_then(|word| word.strip_suffix('w')) {
            Some(switches) => self.are_switches(switches),
            None => word == "--wait",
        };
        self.has("wait") && self.words[place].to_str().is_some_and(waits)
    }

    /// Refuses what is missing, and what could be read in two ways.
    fn check(&self, name: &str, matches: &ArgMatches, place: usize) -> Result<(), Failure> {
        let (rest, is_run) = (&self.words[place..], name == "run");
        let options = matches.subcommand().map_or(matches, |(_, options)| options);
        let takes_key = self.has("rest");
        // A pool names the keys.
        let is_of_pool = Sources::of(matches).is_flag("pool");
        let keys = || match is_of_pool {
            true => 1,
            false => options.try_get_occurrences::<Key>("keys").ok().flatten().map_or(0, Iterator::count),
        };
        let is_behind_dashes = self.words[place - 1] == "--";
        match rest {
            _ if self.key.is_some() && keys() > 1 => {
                let key = self.key.as_deref().map(shown).unwrap_or_default();
                Err(refuse(&format!("{key} is a second key beside that of -k, or the command; {OWN}"), name))
            }
            [word, dashes, ..] if is_run && dashes == "--" && !is_behind_dashes => {
                let no_duration = word.to_str().and_then(|word| word.parse::<DurationText>().err());
                match no_duration.filter(|_| self.waits_at(place - 1)) {
                    Some(why) => Err(refuse(&format!("--wait {}: {why}", shown(word)), name)),
                    None => {
                        let word = shown(word);
                        Err(refuse(&format!("{word} before -- is a second key, or the command; {OWN}"), name))
                    }
                }
            }
            [] if is_run && keys() == 0 => Err(refuse("key and command are missing", name)),
            [] if is_run => Err(match &self.key {
                Some(key) => refuse(
                    &format!("the command is missing: the first word, {}, is the key", shown(key)),
                    name,
                ),
                None => refuse("the command is missing", name),
            }),
            _ if takes_key && name != "config" && keys() == 0 => Err(refuse("the key is missing", name)),
            [_, ..] if name == "acquire" && is_behind_dashes => {
                Err(refuse("acquire starts no command; run does", "run"))
            }
            [word, ..] if is_token(word) && takes_key && !is_run => Err(refuse(TOKEN, name)),
            [word, ..] if takes_key && !is_run => {
                let is_list =
                    |arg: &Arg| arg.get_id() == "keys" && matches!(arg.get_action(), ArgAction::Append);
                let rule = if self.options().any(is_list) { OWN } else { "it takes one key" };
                Err(refuse(&format!("{} is a second key; {rule}", shown(word)), name))
            }
            _ => Ok(()),
        }
    }
}

/// A word processor makes other dashes of hyphens: with one of them an option would be the key, or the command.
fn refuse_other_dash(word: &OsStr, subcommand: &str) -> Result<(), Failure> {
    let text = word.to_string_lossy();
    let bare = text
        .trim_start_matches(['-', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}']);
    if bare.is_empty() || bare.len() == text.len() || text[..text.len() - bare.len()].is_ascii() {
        return Ok(());
    }
    let meant = if bare.split('=').next().is_some_and(|name| name.chars().count() > 1) { "--" } else { "-" };
    let bare = shown(bare.as_ref());
    Err(refuse(
        &format!("{} begins with a dash that is not a hyphen: type {meant}{bare}", shown(word)),
        subcommand,
    ))
}
