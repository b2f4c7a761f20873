//! The script for bash.

use super::subcommand::{
    CompletedOption, OptionValue, STORE_OPTIONS, Subcommand, names_with_value, server_prefixes,
};
use crate::cli::Shell;

pub fn script(subcommands: &[Subcommand], before_them: &[CompletedOption]) -> String {
    let mut options: Vec<&CompletedOption> = Vec::new();
    for option in subcommands.iter().flat_map(|subcommand| &subcommand.options) {
        if options.iter().all(|seen| seen.long != option.long) {
            options.push(option);
        }
    }
    let files = options.iter().filter(|option| option.value == OptionValue::File);
    let files: Vec<String> = files.flat_map(|option| option.names()).collect();
    let of_subcommand = |subcommand: &Subcommand| {
        format!("        {}) echo {} ;;\n", subcommand.name, names(&subcommand.options))
    };
    let every_name: Vec<&str> = subcommands.iter().map(|subcommand| &subcommand.name[..]).collect();
    include_str!("redlock.bash")
        .replace("@SUBCOMMANDS@", &every_name.join(" "))
        .replace("@OPTIONS@\n", &subcommands.iter().map(of_subcommand).collect::<String>())
        .replace("@OPTIONS_BEFORE@", &names(before_them))
        .replace("@WORDS@\n", &words(subcommands).concat())
        .replace("@FILES@", &files.join("|"))
        .replace("@WITH_VALUE@", &names_with_value(subcommands).join("|"))
        .replace("@STORE_OPTIONS@", &STORE_OPTIONS.join("|"))
        .replace("@STORE_OPTIONS_JOINT@", &STORE_OPTIONS[1..].join("=*|"))
        .replace("@SERVERS@", &server_prefixes())
        .replace("@SHELLS@", &Shell::names().join(" "))
}

fn names(options: &[CompletedOption]) -> String {
    options.iter().flat_map(CompletedOption::names).collect::<Vec<_>>().join(" ")
}

/// A line for each option that takes one of a few words, which may be others in another subcommand.
fn words(subcommands: &[Subcommand]) -> Vec<String> {
    let is_everywhere = |option: &CompletedOption| {
        let all = subcommands.iter().flat_map(|subcommand| &subcommand.options);
        all.filter(|other| other.long == option.long).all(|other| other.value == option.value)
    };
    let mut lines = Vec::new();
    for (subcommand, option) in subcommands
        .iter()
        .flat_map(|subcommand| subcommand.options.iter().map(move |option| (subcommand, option)))
    {
        let OptionValue::Word(words) = &option.value else { continue };
        let place = if is_everywhere(option) { "*" } else { &subcommand.name };
        let patterns: Vec<String> = option.names().iter().map(|name| format!("{place}\\ {name}")).collect();
        let line = format!("        {}) echo {} ;;\n", patterns.join(" | "), words.join(" "));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}
