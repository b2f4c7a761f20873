//! The subcommands as the completions show them.

use clap::{Arg, ArgAction, Command, ValueHint};

use crate::store::SCHEMES;

/// The options that lead to the store whose locks are completed.
pub const STORE_OPTIONS: [&str; 10] = [
    "-S",
    "--server",
    "--config",
    "--profile",
    "--user",
    "--password-file",
    "--sentinel-password-file",
    "--tls-ca",
    "--tls-cert",
    "--tls-key",
];

pub struct Subcommand {
    pub name: String,
    pub about: String,
    pub options: Vec<CompletedOption>,
    /// Its first word is the key.
    pub takes_key: bool,
}

pub struct CompletedOption {
    pub short: Option<char>,
    pub long: String,
    pub about: String,
    pub value: OptionValue,
    pub is_repeatable: bool,
}

/// The words that complete the value of an option.
#[derive(PartialEq)]
pub enum OptionValue {
    /// It takes none.
    None,
    /// One may follow, which nobody can guess.
    Optional,
    Any,
    File,
    Word(Vec<String>),
    Server,
    /// The name of a profile in the configuration files.
    Profile,
    /// The name of a pool there.
    Pool,
    /// The key of a lock in use.
    Key,
}

/// The beginnings of the URLs of stores.
pub fn server_prefixes() -> String {
    SCHEMES.map(|scheme| scheme.prefix).join(" ")
}

/// The names of the options that take a value always.
pub fn names_with_value(subcommands: &[Subcommand]) -> Vec<String> {
    let options = subcommands.iter().flat_map(|subcommand| &subcommand.options);
    let mut names: Vec<String> = options
        .filter(|option| !matches!(option.value, OptionValue::None | OptionValue::Optional))
        .flat_map(CompletedOption::names)
        .collect();
    names.sort();
    names.dedup();
    names
}

impl Subcommand {
    pub fn of(command: &Command) -> Subcommand {
        let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
        Subcommand {
            name: command.get_name().to_owned(),
            about: command.get_about().map(ToString::to_string).unwrap_or_default(),
            options: options.filter_map(CompletedOption::of).collect(),
            takes_key: command.get_arguments().any(|arg| arg.get_id() == "rest"),
        }
    }
}

impl CompletedOption {
    /// `None` if it is not an option.
    fn of(arg: &Arg) -> Option<CompletedOption> {
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        // The default is of no use while the option is typed.
        let about = about.split(" [default").next().unwrap_or_default().to_owned();
        Some(CompletedOption {
            short: arg.get_short(),
            long: arg.get_long()?.to_owned(),
            about,
            value: OptionValue::of(arg),
            is_repeatable: matches!(arg.get_action(), ArgAction::Append),
        })
    }

    /// `-k`, `--key`.
    pub fn names(&self) -> Vec<String> {
        let short = self.short.map(|short| format!("-{short}"));
        short.into_iter().chain([format!("--{}", self.long)]).collect()
    }
}

impl OptionValue {
    fn of(arg: &Arg) -> OptionValue {
        let words: Vec<String> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let values = arg.get_num_args().unwrap_or_default();
        match arg.get_value_hint() {
            _ if !values.takes_values() => OptionValue::None,
            _ if values.min_values() == 0 => OptionValue::Optional,
            _ if arg.get_id() == "server" => OptionValue::Server,
            _ if arg.get_id() == "profile" => OptionValue::Profile,
            _ if arg.get_id() == "pool" => OptionValue::Pool,
            _ if arg.get_long() == Some("key") => OptionValue::Key,
            ValueHint::AnyPath | ValueHint::FilePath => OptionValue::File,
            _ if words.is_empty() => OptionValue::Any,
            _ => OptionValue::Word(words),
        }
    }
}
