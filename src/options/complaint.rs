//! One line about what is wrong with a command line: clap's words, without secrets, and an example.

use std::env;
use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use uuid::Uuid;

use super::server_urls::has_login;
use crate::error::Failure;
use crate::sanitize::sanitize;

/// Subcommands of other lock commands, and what redlock calls them.
const SUBCOMMANDS: [(&str, &[&str]); 10] = [
    ("run", &["lock", "exec", "with", "try"]),
    ("release", &["unlock"]),
    ("renew", &["extend", "refresh"]),
    ("status", &["list", "ls", "show", "watch", "top", "ps"]),
    ("history", &["log", "logs"]),
    ("break", &["kill", "steal", "delete", "force-release"]),
    ("resize", &["scale", "grow", "shrink"]),
    ("doctor", &["info"]),
    ("config", &["init"]),
    ("--version", &["version"]),
];

/// Options of other lock commands, and what redlock calls them.
const OPTIONS: [(&str, &[&str]); 6] = [
    ("--key", &["--name", "--lock"]),
    ("--ttl", &["--lease", "--expire", "--expiry"]),
    ("--server", &["--host", "--url"]),
    ("--wait", &["--block"]),
    ("--permits", &["--limit", "--max", "--semaphore"]),
    ("--take", &["--weight", "--count", "--quantity"]),
];

/// Long enough to recognise a value.
const LONGEST_VALUE: usize = 60;

/// Says what clap found wrong with the words. `root` is the command line with all subcommands.
pub fn explain(mut error: clap::Error, words: &[OsString], root: &Command) -> Failure {
    let subcommand = words.get(1).and_then(|name| root.find_subcommand(name));
    let argument = text(&error, ContextKind::InvalidArg);
    let word = argument.clone().or_else(|| text(&error, ContextKind::InvalidSubcommand)).unwrap_or_default();
    let ours = match error.kind() {
        ErrorKind::InvalidSubcommand => called(&SUBCOMMANDS, &word),
        ErrorKind::UnknownArgument => called(&OPTIONS, &word),
        _ => None,
    };
    let is_ours = |arg: &&Arg| Some(arg.to_string()) == argument;
    let arg = root.get_subcommands().flat_map(Command::get_arguments).find(is_ours);
    let variable = arg.and_then(Arg::get_env).filter(|name| {
        let value = env::var_os(name).filter(|value| !value.is_empty());
        value.is_some_and(|value| text(&error, ContextKind::InvalidValue).is_some_and(|text| *text == *value))
    });
    let is_secret = arg.is_some_and(|arg| arg.get_id() == "token");
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue] {
        let Some(value) = text(&error, kind) else { continue };
        let value = match kind {
            _ if value.is_empty() => continue,
            ContextKind::InvalidValue if is_secret => "…".to_owned(),
            _ => shown(value.as_ref()),
        };
        error.insert(kind, ContextValue::String(value));
    }
    let rendered = error.render().to_string();
    let mut what: Vec<String> = Vec::new();
    for line in
        rendered.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
    {
        let line = line.trim().trim_start_matches("error: ").trim_start_matches("tip: ");
        // A value that begins with a dash is never meant.
        let is_tip_about_dashes = line.contains("as a value, use");
        if !line.is_empty() && !is_tip_about_dashes && (ours.is_none() || what.is_empty()) {
            what.push(line.to_owned());
        }
    }
    what.extend(variable.map(|name| format!("it is the value of {}", name.to_string_lossy())));
    what.extend(ours.map(|ours| format!("redlock calls it {ours}")));
    let is_key = |word: &&OsString| !word.as_encoded_bytes().starts_with(b"-");
    if error.kind() == ErrorKind::UnknownArgument
        && let (Some("run"), Some(key)) = (subcommand.map(Command::get_name), words.get(2).filter(is_key))
    {
        what.push(format!("the first word, {}, is the key", shown(key)));
    }
    let near = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.first().map(String::as_str),
        _ => None,
    };
    let meant = ours.filter(|ours| !ours.starts_with('-')).or(near);
    let name = subcommand.map(Command::get_name).or(meant).unwrap_or("run");
    refuse(&what.join("; ").replace(":; ", ": "), name)
}

/// Says what is wrong, and shows a line that is right for this subcommand.
pub fn refuse(what: &str, subcommand: &str) -> Failure {
    let failure = Failure::usage(what);
    match example(subcommand) {
        Some(line) => failure.hint(format!("for example: {line}")),
        None => failure,
    }
}

/// True if it has the form of an owner token of redlock's own.
pub fn is_token(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| word.len() == 36 && Uuid::try_parse(word).is_ok())
}

/// The first example of the subcommand's help, without its remark.
fn example(subcommand: &str) -> Option<String> {
    let root = super::declared::built();
    let examples = root.find_subcommand(subcommand)?.get_after_long_help()?.to_string();
    let first = examples.lines().find(|line| line.contains("redlock "))?;
    Some(first.split("  #").next().unwrap_or(first).trim().to_owned())
}

fn called(table: &[(&'static str, &[&str])], word: &str) -> Option<&'static str> {
    table.iter().find(|(_, others)| others.contains(&word)).map(|(ours, _)| *ours)
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// An owner token or a login in the wrong place is not shown. Nor is more of a word than a line has room for.
pub fn shown(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    match text.char_indices().nth(LONGEST_VALUE) {
        _ if is_token(word) => "TOKEN".to_owned(),
        _ if has_login(word) => "URL".to_owned(),
        Some((end, _)) => sanitize(&format!("{}…", &text[..end])),
        None => sanitize(&text),
    }
}

#[test]
fn each_name_of_another_command_leads_to_one_of_ours() {
    let root = super::declared::built();
    for (ours, others) in SUBCOMMANDS.iter().filter(|(ours, _)| !ours.starts_with('-')) {
        assert!(root.find_subcommand(ours).is_some(), "{ours}");
        assert!(others.iter().all(|other| root.find_subcommand(other).is_none()), "{others:?}");
    }
    let longs: Vec<&str> =
        root.get_subcommands().flat_map(Command::get_arguments).filter_map(Arg::get_long).collect();
    for (ours, others) in OPTIONS {
        assert!(longs.contains(&&ours[2..]), "{ours}");
        assert!(others.iter().all(|other| !longs.contains(&&other[2..])), "{others:?}");
    }
}

#[test]
fn each_subcommand_has_an_example() {
    let root = super::declared::built();
    for subcommand in root.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help") {
        assert!(example(subcommand).is_some_and(|line| line.contains(subcommand)), "{subcommand}");
    }
}
