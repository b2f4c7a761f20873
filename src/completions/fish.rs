//! The script for fish.

use super::subcommand::{
    CompletedOption, OptionValue, STORE_OPTIONS, Subcommand, names_with_value, server_prefixes,
};
use crate::cli::Shell;

pub fn script(subcommands: &[Subcommand]) -> String {
    let described = subcommands.iter().map(|one| {
        format!("complete -c redlock -n '__redlock_at \"\"' -xa {} -d {}\n", one.name, quoted(&one.about))
    });
    let options = subcommands
        .iter()
        .flat_map(|subcommand| subcommand.options.iter().map(|option| line(&subcommand.name, option)));
    let with_key = subcommands.iter().filter(|one| one.takes_key).map(|one| &one.name[..]);
    let with_key: Vec<&str> = with_key.collect();
    let joint = STORE_OPTIONS[1..].iter().map(|name| format!("'{name}=*'")).collect::<Vec<_>>().join(" ");
    include_str!("redlock.fish")
        .replace("@STORE_OPTIONS@", &STORE_OPTIONS.join(" "))
        .replace("@STORE_OPTIONS_JOINT@", &joint)
        .replace("@WITH_KEY@", &with_key.join(" "))
        .replace("@WITH_VALUE@", &names_with_value(subcommands).join(" "))
        .replace("@SUBCOMMANDS@\n", &described.collect::<String>())
        .replace("@OPTIONS@\n", &options.collect::<String>())
        .replace("@SHELLS@", &Shell::names().join(" "))
}

fn line(subcommand: &str, option: &CompletedOption) -> String {
    let short = option.short.map_or(String::new(), |short| format!(" -s {short}"));
    let value = match &option.value {
        OptionValue::None | OptionValue::Optional => String::new(),
        OptionValue::Any => " -x".to_owned(),
        OptionValue::File => " -rF".to_owned(),
        OptionValue::Word(words) => format!(" -xa '{}'", words.join(" ")),
        OptionValue::Server => format!(" -xa '{} (__redlock_known servers)'", server_prefixes()),
        OptionValue::Profile => " -xa '(__redlock_known profiles)'".to_owned(),
        OptionValue::Pool => " -xa '(__redlock_known pools)'".to_owned(),
        OptionValue::Key => " -xa '(__redlock_known keys)'".to_owned(),
    };
    let (long, about) = (&option.long, quoted(&option.about));
    format!("complete -c redlock -n '__redlock_at {subcommand}'{short} -l {long}{value} -d {about}\n")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
