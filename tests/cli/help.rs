//! The help of each subcommand: on one screen, in imperatives, with examples. What it looks like stands in tests/cli/help.
//! `REDLOCK_WRITE_DOCUMENTS=1` writes that.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use redlock::cli::{Cli, GROUPS};

use crate::harness::Redlock;

/// What begins a line of help: people read what an option does.
const VERBS: &str = "Acquire Add Ask Break Check Choose Color Do Exit Extend Find Follow Hold Judge Keep Log Name Print Read \
     Release Require Run Say Send Set Share Show Sleep Stop Take Trust Use Wait Write";

/// The program itself, and its subcommands.
fn subcommands() -> Vec<&'static str> {
    let grouped = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    std::iter::once("").chain(grouped).collect()
}

fn built() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

fn help(subcommand: &str, flag: &str) -> String {
    let words: Vec<&str> = [subcommand, flag].into_iter().filter(|word| !word.is_empty()).collect();
    Redlock::new(&words).env("COLUMNS", "80").run().expect(0).stdout
}

#[test]
fn each_subcommand_is_in_one_group() {
    let root = built();
    let mut known: Vec<&str> =
        root.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
    let mut grouped = subcommands()[1..].to_vec();
    known.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(grouped, known);
}

/// Each page as it is checked in, whatever the variables are set to.
#[test]
fn the_help_is_as_it_was_read_and_approved() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help");
    let mut outdated = Vec::new();
    for subcommand in subcommands() {
        for (flag, kind) in [("-h", "short"), ("--help", "long")] {
            let text = help(subcommand, flag);
            let name = if subcommand.is_empty() { "redlock" } else { subcommand };
            let file = folder.join(format!("{name}.{kind}.txt"));
            if std::env::var_os("REDLOCK_WRITE_DOCUMENTS").is_some() {
                fs::write(&file, &text).expect("a page is written");
            }
            let words: Vec<&str> = [subcommand, flag].into_iter().filter(|word| !word.is_empty()).collect();
            let set = Redlock::new(&words).env("COLUMNS", "80").env("REDLOCK_TTL", "7s");
            let set = set.env("REDLOCK_SERVER", "redis://:canary@h").run().expect(0).stdout;
            assert_eq!(text, set, "the help shows variables");
            if fs::read_to_string(&file).unwrap_or_default() != text {
                outdated.push(format!("{name}.{kind}.txt is not:\n{text}"));
            }
        }
    }
    assert!(outdated.is_empty(), "{}", outdated.join("\n"));
}

#[test]
fn each_line_is_an_imperative_and_short() {
    let root = built();
    let verbs: Vec<&str> = VERBS.split_whitespace().collect();
    let mut wrong = Vec::new();
    for command in std::iter::once(&root).chain(root.get_subcommands()).filter(|one| one.get_name() != "help")
    {
        let args =
            command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()));
        let texts = args.filter_map(|arg| arg.get_help()).chain(command.get_about());
        for text in texts.map(ToString::to_string) {
            let text = text.split(" [default").next().unwrap_or_default().to_owned();
            let begins = verbs.iter().any(|verb| text.split(' ').next() == Some(verb));
            if text.chars().count() > 60 || !begins {
                wrong.push(format!("{}: {text} ({})", command.get_name(), text.chars().count()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of 80 columns and 24 lines, of which the prompt has one.
#[test]
fn the_short_help_fits_on_a_screen() {
    for subcommand in subcommands() {
        let text = help(subcommand, "-h");
        assert!(text.lines().count() < 24, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("--tls") && !text.contains("--password") && !text.contains("[env"), "{text}");
    }
}

#[test]
fn every_page_has_examples() {
    for subcommand in subcommands() {
        for (flag, heading, counts) in [("-h", "\nExample:", 1..=1), ("--help", "\nExamples:\n", 2..=4)] {
            let text = help(subcommand, flag);
            let (_, examples) = text.split_once(heading).expect("examples");
            let examples = examples.lines().take_while(|line| !line.is_empty());
            let examples =
                examples.filter(|line| line.contains("redlock ") && !line.starts_with("  #")).count();
            assert!(counts.contains(&examples), "{text}");
        }
    }
}

#[test]
fn the_version_names_the_build() {
    assert_eq!(help("", "-V"), help("", "--version"));
    let details = help("", "--version");
    let names: Vec<&str> = details.lines().filter_map(|line| line.split([' ', ':']).next()).collect();
    assert_eq!(names, ["redlock", "commit", "target", "stores"], "{details}");
}

/// What no terminal breaks.
#[test]
fn the_exit_statuses_are_a_table() {
    for subcommand in ["", "run", "acquire"] {
        let text = help(subcommand, "--help");
        for line in
            ["   69  no store could be reached", "   75  held by another, or the wait ran out (run: see -E)"]
        {
            assert!(text.lines().any(|shown| shown == line), "{text}");
        }
    }
    assert!(help("run", "-h").contains("Wait for the lock instead of failing with 75"));
}
