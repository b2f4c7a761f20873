//! Reading the command line and the variables of options.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::{Args, Command, value_parser};

use super::complaint::explain;
use super::declared::built;
use super::help::for_help;
use super::line::{Line, ReadLine};
use crate::cli::GlobalArgs;
use crate::error::{Failure, Outcome, USAGE};
use crate::job::title;

/// The command line as it was typed: the system's copy loses the words of a job, see `job::title`.
static TYPED: LazyLock<Vec<OsString>> = LazyLock::new(title::words);

/// Parses the command line. A flag overrules a variable that contradicts it; a variable that is
/// empty counts as not set. The error is one of the parser, see [`answer`], or a [`Failure`].
pub fn parse() -> anyhow::Result<ReadLine> {
    read(TYPED.clone())
}

/// Reads the words of a command line.
pub fn read(words: Vec<OsString>) -> anyhow::Result<ReadLine> {
    Line::new(subcommand_first(&words))?.read()
}

/// Prints help or the version, or fails with what is wrong.
pub fn answer(error: anyhow::Error) -> anyhow::Result<Outcome> {
    let error = error.downcast::<clap::Error>()?;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {}
        // clap's name for it depends on whether a variable is set.
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if TYPED.len() <= 1 =>
        {
            let _ = write!(io::stderr(), "{}", for_help(built(), false).render_help());
            return Ok(Outcome::Exit(USAGE));
        }
        _ => return Err(explain(error, &subcommand_first(&TYPED), &built()).into()),
    }
    match error.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::not_printed(error).into()),
        _ => Ok(Outcome::SUCCESS),
    }
}

/// Moves options that precede the subcommand to its end. A line that cannot be read stays as it is.
fn subcommand_first(typed: &[OsString]) -> Vec<OsString> {
    let moved = || {
        typed.get(1).filter(|first| first.as_encoded_bytes().starts_with(b"-"))?;
        let matches = GlobalArgs::augment_args(Command::new("redlock"))
            .mut_args(|arg| arg.env(None))
            .external_subcommand_value_parser(value_parser!(OsString))
            .allow_external_subcommands(true)
            .try_get_matches_from(typed)
            .ok()?;
        let (_, rest) = matches.subcommand()?;
        let place = typed.len() - 1 - rest.get_many::<OsString>("").map_or(0, Iterator::count);
        let (options, subcommand) = (&typed[1..place], &typed[place..=place]);
        Some([&typed[..1], subcommand, options, &typed[place + 1..]].concat())
    };
    moved().unwrap_or_else(|| typed.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn read(text: &str) -> anyhow::Result<String> {
        let words = std::iter::once("redlock").chain(text.split(' ')).map(OsString::from).collect::<Vec<_>>();
        let words = super::read(words)?.line.words;
        Ok(words[1..].join(std::ffi::OsStr::new(" ")).to_string_lossy().into_owned())
    }

    #[test]
    fn a_key_and_a_duration_belong_to_their_options() -> anyhow::Result<()> {
        for (typed, clear) in [
            ("run x -- true", "run --key=x -- true"),
            ("run x sleep 5", "run --key=x sleep 5"),
            ("run x timeout 5 sleep --help", "run --key=x timeout 5 sleep --help"),
            ("run x --ttl 5s sleep -k 1", "run --key=x --ttl 5s sleep -k 1"),
            ("run -w 5 F true", "run -w=5 --key=F true"),
            ("run -w F true", "run -w --key=F true"),
            ("run -w5 F true -w5", "run -w=5 --key=F true -w5"),
            ("run F --ttl 9s -qw5s true", "run --key=F --ttl 9s -qw=5s true"),
            ("run F --wait 5 true -w 5", "run --key=F --wait=5 true -w 5"),
            ("run -k x --wait 5x true", "run -k x --wait 5x true"),
            ("run -kw 5s true", "run -kw 5s true"),
            ("-S local: run F true", "run -S local: --key=F true"),
            ("run --ttl=5s x nice -n 5 -- true", "run --ttl=5s --key=x nice -n 5 -- true"),
            ("acquire x --wait", "acquire --key=x --wait"),
            ("break -- -x", "break --key=-x"),
            ("check --ran-within 1d x", "check --ran-within 1d --key=x"),
            ("-S a status -S b x", "status -S a -S b x"),
            ("status --json -- -x y", "status --json -- -x y"),
        ] {
            assert_eq!(read(typed)?, clear, "{typed}");
        }
        Ok(())
    }

    proptest! {
        /// A line that was read is read in the same way again.
        #[test]
        fn a_line_that_was_read_is_clear(words in vec(select(&WORDS[..]), 0..8)) {
            let typed = words.join(" ");
            if let Ok(clear) = read(&typed) {
                prop_assert_eq!(read(&clear).ok(), Some(clear.clone()), "{}", typed);
            }
        }
    }

    const WORDS: [&str; 22] = [
        "run", "acquire", "break", "status", "lock", "x", "y", "5", "5m", "-k", "--key=x", "-kx", "--wait",
        "-w5", "-vn", "-w", "-c", "--", "-", "--ttl", "-é", "-p",
    ];
}
