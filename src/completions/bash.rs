//! The script for bash.

use super::{CompletedOption, OptionValue, STORE_OPTIONS, Subcommand, names_with_value, server_prefixes};
use crate::cli::Shell;

pub fn script(subcommands: &[Subcommand]) -> String {
    let mut options: Vec<&CompletedOption> = Vec::new();
    for option in subcommands.iter().flat_map(|subcommand| &subcommand.options) {
        if options.iter().all(|seen| seen.long != option.long) {
            options.push(option);
        }
    }
    let files = options.iter().filter(|option| option.value == OptionValue::File);
    let files: Vec<String> = files.flat_map(|option| option.names()).collect();
    let words = options.iter().filter_map(|option| match &option.value {
        OptionValue::Word(words) => {
            Some(format!("        {}) echo {} ;;\n", option.names().join("|"), words.join(" ")))
        }
        _ => None,
    });
    let of_subcommand = |subcommand: &Subcommand| {
        let names: Vec<String> = subcommand.options.iter().flat_map(CompletedOption::names).collect();
        format!("        {}) echo {} ;;\n", subcommand.name, names.join(" "))
    };
    let every_name: Vec<&str> = subcommands.iter().map(|subcommand| &subcommand.name[..]).collect();
    include_str!("redlock.bash")
        .replace("@SUBCOMMANDS@", &every_name.join(" "))
        .replace("@OPTIONS@\n", &subcommands.iter().map(of_subcommand).collect::<String>())
        .replace("@WORDS@\n", &words.collect::<String>())
        .replace("@FILES@", &files.join("|"))
        .replace("@WITH_VALUE@", &names_with_value(subcommands).join("|"))
        .replace("@STORE_OPTIONS@", &STORE_OPTIONS.join("|"))
        .replace("@STORE_OPTIONS_JOINT@", &STORE_OPTIONS[1..].join("=*|"))
        .replace("@SERVERS@", &server_prefixes())
        .replace("@SHELLS@", &Shell::names().join(" "))
}
