//! The variables of options: which of them count, and which are misspelt.

use std::env;

use clap::{Arg, Command};

use super::sources::is_off;
use super::suggestion::nearest;
use crate::cli;

/// Variables that are not options, or are those of one call.
const OTHER_VARIABLES: &str =
    "KEY TOKEN TOKEN_FILE CONFIG PROFILE FENCE PERMIT OUTER HOOK EVENT EXIT_STATUS HOLDER REASON";

/// The variables that look like those of redlock and are not, each with the one whose name is nearest.
pub fn misspelt_variables() -> Vec<(String, String)> {
    let names =
        env::vars_os().filter_map(|(name, _)| name.to_str()?.strip_prefix("REDLOCK_").map(str::to_owned));
    let mut unknown: Vec<String> = names
        .filter(|name| OTHER_VARIABLES.split(' ').all(|other| other != name) && !name.starts_with("POOL_"))
        .collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let variables =
        cli::settings().iter().filter_map(|arg| arg.get_env()?.to_str()?.strip_prefix("REDLOCK_"));
    let known: Vec<&str> = variables.chain(OTHER_VARIABLES.split(' ')).collect();
    unknown.retain(|name| !known.contains(&&name[..]));
    let near = |name: &String| Some((name.clone(), nearest(name, known.iter().copied())?.to_owned()));
    unknown.iter().filter_map(near).collect()
}

/// The variable of this option counts as not set.
pub fn is_unset(arg: &Arg) -> bool {
    let is_empty = arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty());
    is_empty || !arg.get_action().takes_values() && arg.get_env().is_some_and(is_off)
}

/// The command without the variables of these options.
pub fn without_variables(command: Command, ignored: &dyn Fn(&Arg) -> bool) -> Command {
    let command = command.mut_args(|arg| if ignored(&arg) { arg.env(None) } else { arg });
    command.mut_subcommands(|subcommand| without_variables(subcommand, ignored))
}
