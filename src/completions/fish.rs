//! The script for fish.

use super::{CompletedOption, SERVERS, Subcommand, Value, names_with_value};
use crate::cli::Shell;

pub fn script(subcommands: &[Subcommand]) -> String {
    let described = subcommands.iter().map(|one| {
        format!("complete -c redlock -n '__redlock_at \"\"' -xa {} -d {}\n", one.name, quoted(&one.about))
    });
    let options = subcommands
        .iter()
        .flat_map(|subcommand| subcommand.options.iter().map(|option| line(&subcommand.name, option)));
    include_str!("redlock.fish")
        .replace("@WITH_VALUE@", &names_with_value(subcommands).join(" "))
        .replace("@SUBCOMMANDS@\n", &described.collect::<String>())
        .replace("@OPTIONS@\n", &options.collect::<String>())
        .replace("@SHELLS@", &Shell::names().join(" "))
}

fn line(subcommand: &str, option: &CompletedOption) -> String {
    let short = option.short.map_or(String::new(), |short| format!(" -s {short}"));
    let value = match &option.value {
        Value::None | Value::Optional => String::new(),
        Value::Any => " -x".to_owned(),
        Value::File => " -rF".to_owned(),
        Value::Word(words) => format!(" -xa '{}'", words.join(" ")),
        Value::Server => format!(" -xa '{}'", SERVERS.join(" ")),
    };
    let (long, about) = (&option.long, quoted(&option.about));
    format!("complete -c redlock -n '__redlock_at {subcommand}'{short} -l {long}{value} -d {about}\n")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
