//! Ends a script that evaluates the output of a failed `acquire`: it does not see the exit status, as
//! `eval "$(false)"` is true.

use clap::{ArgMatches, CommandFactory, ValueEnum};

use crate::cli::{Cli, Format};
use crate::error::Outcome;
use crate::job::title;
use crate::report::acquired::{FENCE, KEY, PERMIT, TOKEN};
use crate::report::{ShellSyntax, print};

/// The language of the script, if the output is for one.
pub fn shell(matches: &ArgMatches) -> Option<ShellSyntax> {
    let (_, options) = matches.subcommand().filter(|(name, _)| *name == "acquire")?;
    options.get_one("format").and_then(|format| evaluating(*format))
}

/// The same for a command line that clap refuses.
pub fn shell_in_arguments() -> Option<ShellSyntax> {
    let words: Vec<String> =
        title::words().iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let command = Cli::command();
    words.iter().find(|word| command.find_subcommand(word).is_some()).filter(|word| *word == "acquire")?;
    let mut rest = words.iter().skip_while(|word| !word.starts_with("--format"));
    let format = rest.next()?.strip_prefix("--format=").or_else(|| rest.next().map(String::as_str))?;
    Format::from_str(format, false).ok().and_then(evaluating)
}

fn evaluating(format: Format) -> Option<ShellSyntax> {
    match format {
        Format::Env => Some(ShellSyntax::Posix),
        Format::Fish => Some(ShellSyntax::Fish),
        Format::Token | Format::Json | Format::Github => None,
    }
}

/// Ends the script unless this is a success, so that it does not go on without the lock, or with another one from its
/// environment.
pub fn stop_unless_acquired(shell: ShellSyntax, outcome: Outcome) {
    let code = match outcome {
        Outcome::SUCCESS => return,
        Outcome::Exit(code) => code.into(),
        Outcome::Signal(signal) => 128 + signal,
    };
    // A reader that closed the pipe does not evaluate it.
    let _ = print(shell.stop(&[KEY, TOKEN, FENCE, PERMIT], code).as_bytes());
}
