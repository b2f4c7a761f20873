//! The command line as it is declared, whatever was typed.

use clap::{Arg, Command, CommandFactory, Id};

use crate::cli::Cli;

/// The command line with all its subcommands.
pub fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// Pairs of options that contradict each other.
pub fn conflicts(root: &Command) -> Vec<[Id; 2]> {
    let of_arg = |command: &Command, arg: &Arg| {
        let others = command.get_arg_conflicts_with(arg).into_iter();
        others.map(|other| [arg.get_id().clone(), other.get_id().clone()]).collect::<Vec<_>>()
    };
    let of_command =
        |command: &Command| command.get_arguments().flat_map(|arg| of_arg(command, arg)).collect::<Vec<_>>();
    root.get_subcommands().flat_map(of_command).collect()
}
