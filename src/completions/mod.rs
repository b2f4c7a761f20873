//! Completion scripts for shells, made from the definitions of the command line.

mod bash;
mod fish;
mod subcommand;
mod zsh;

use clap::CommandFactory;

use self::subcommand::Subcommand;
use crate::cli::{Cli, Shell};

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    let mut root = Cli::command();
    root.build();
    let subcommands = root.get_subcommands().filter(|subcommand| subcommand.get_name() != "help");
    let subcommands: Vec<Subcommand> = subcommands.map(Subcommand::of).collect();
    let before_them = Subcommand::of(&root).options;
    match shell {
        Shell::Bash => bash::script(&subcommands, &before_them),
        Shell::Zsh => zsh::script(&subcommands, &before_them),
        Shell::Fish => fish::script(&subcommands),
    }
}
