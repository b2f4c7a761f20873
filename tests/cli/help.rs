//! The help of each subcommand: on one screen, with examples.

use crate::harness::Redlock;

const SUBCOMMANDS: [&str; 12] = [
    "",
    "run",
    "acquire",
    "renew",
    "check",
    "release",
    "status",
    "history",
    "break",
    "doctor",
    "config",
    "completions",
];

fn help(subcommand: &str, flag: &str) -> String {
    let words: Vec<&str> = [subcommand, flag].into_iter().filter(|word| !word.is_empty()).collect();
    Redlock::new(&words).env("COLUMNS", "80").run().expect(0).stdout
}

/// Of 80 columns and 24 lines, of which the prompt has one.
#[test]
fn the_short_help_fits_on_a_screen() {
    for subcommand in SUBCOMMANDS {
        let text = help(subcommand, "-h");
        assert!(text.lines().count() < 24, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("--tls") && !text.contains("--password") && !text.contains("[env"), "{text}");
    }
}

#[test]
fn every_page_has_examples() {
    for subcommand in SUBCOMMANDS {
        for flag in ["-h", "--help"] {
            let text = help(subcommand, flag);
            let (_, examples) = text.split_once("\nExamples:\n").expect("examples");
            let examples = examples.lines().take_while(|line| !line.is_empty());
            let examples =
                examples.filter(|line| line.contains("redlock ") && !line.starts_with("  #")).count();
            assert!((2..=4).contains(&examples), "{text}");
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
        for line in [
            "   69  no store could be reached",
            "   75  held by another, or the wait ran out (-E changes it)",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{text}");
        }
    }
    assert!(help("run", "-h").contains("Wait for the lock instead of failing with 75"));
}
