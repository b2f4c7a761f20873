//! The help as clap prints it, with the subcommands in groups.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Command};

use super::declared::built;
use crate::cli;

/// Reads a line that asks for help.
pub fn read_for_help(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let is_long = words.iter().skip(1).any(|word| word == "--help" || word == "help");
    for_help(built(), is_long).try_get_matches_from(words)
}

/// The help shows the subcommands in groups. The help does not show the values of variables. The short help fits on one
/// screen, so it has no headings for few options.
pub fn for_help(root: Command, is_long: bool) -> Command {
    let style = root.get_styles();
    let (heading, literal) = (*style.get_header(), *style.get_literal());
    let mut groups = String::new();
    for (title, names) in cli::GROUPS {
        groups += &format!("{heading}{title}:{heading:#}\n");
        for subcommand in names.iter().filter_map(|name| root.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            groups += &format!("  {literal}{:<13}{literal:#}{about}\n", subcommand.get_name());
        }
    }
    let example = root.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (about, gap, end) = match is_long {
        true => ("{about-with-newline}\n", "\n\n", "{after-help}".to_owned()),
        false => ("{about-with-newline}", "\n", format!("\n{example}")),
    };
    let root = root
        .help_template(format!("{about}{{usage-heading}} {{usage}}{gap}{groups}{{all-args}}{end}"))
        .mut_subcommands(|subcommand| subcommand.hide(true));
    let headed = |arg: Arg| if is_long { arg } else { arg.help_heading(None::<&str>) };
    let root = root.mut_args(|arg| {
        let is_for_long_help = ["quiet", "verbose", "version"].iter().any(|option| arg.get_id() == option);
        if is_for_long_help { arg.hide_short_help(true) } else { arg }
    });
    let root = root.mut_args(|arg| headed(arg.hide_env(true)));
    root.mut_subcommands(|subcommand| subcommand.mut_args(|arg| headed(arg.hide_env(true))))
}
