//! The script for zsh.

use super::subcommand::{
    CompletedOption, OptionValue, STORE_OPTIONS, Subcommand, names_with_value, server_prefixes,
};
use crate::cli::Shell;

pub fn script(subcommands: &[Subcommand], before_them: &[CompletedOption]) -> String {
    let described =
        subcommands.iter().map(|one| format!("        {}\n", quoted(&format!("{}:{}", one.name, one.about))));
    let options = |subcommand: &Subcommand| {
        let specs: String = subcommand
            .options
            .iter()
            .flat_map(specs)
            .map(|spec| format!("                {spec}\n"))
            .collect();
        format!("        {})\n            options=(\n{specs}            )\n            ;;\n", subcommand.name)
    };
    let before_them: String =
        before_them.iter().flat_map(specs).map(|spec| format!("        {spec} \\\n")).collect();
    include_str!("redlock.zsh")
        .replace("@OPTIONS_BEFORE@\n", &before_them)
        .replace("@SUBCOMMANDS@\n", &described.collect::<String>())
        .replace("@OPTIONS@\n", &subcommands.iter().map(options).collect::<String>())
        .replace("@WITH_VALUE@", &names_with_value(subcommands).join("|"))
        .replace("@STORE_OPTIONS@", &STORE_OPTIONS.join("|"))
        .replace("@STORE_OPTIONS_JOINT@", &STORE_OPTIONS[1..].join("=*|"))
        .replace("@SERVERS@", &server_prefixes())
        .replace("@SHELLS@", &Shell::names().join(" "))
}

/// The lines by which `_arguments` knows an option, one for each of its names.
fn specs(option: &CompletedOption) -> Vec<String> {
    let names = option.names();
    let spec = |name: &String| {
        let excluded = match &option.long[..] {
            _ if option.is_repeatable => "*".to_owned(),
            "help" | "version" => "(- *)".to_owned(),
            _ => format!("({})", names.join(" ")),
        };
        let joint = match (&option.value, name.starts_with("--")) {
            (OptionValue::None, _) => "",
            (_, true) => "=",
            (_, false) => "+",
        };
        let about = option.about.replace('[', "\\[").replace(']', "\\]");
        let value = match &option.value {
            OptionValue::None => String::new(),
            OptionValue::Optional => "::duration: ".to_owned(),
            OptionValue::Any => format!(":{}: ", option.long),
            OptionValue::File => ":file:_files".to_owned(),
            OptionValue::Word(words) => format!(":{}:({})", option.long, words.join(" ")),
            OptionValue::Server => ":url:_redlock_servers".to_owned(),
            OptionValue::Profile => ":profile:_redlock_profiles".to_owned(),
            OptionValue::Pool => ":pool:_redlock_pools".to_owned(),
            OptionValue::Key => ":key:_redlock_keys".to_owned(),
        };
        quoted(&format!("{excluded}{name}{joint}[{about}]{value}"))
    };
    names.iter().map(spec).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
