//! Man pages and completions, made from the argument definitions. They are checked in; the tests compare.
//! `REDLOCK_WRITE_DOCUMENTS=1 cargo test documents` writes them.

#[path = "documents/man_page.rs"]
mod man_page;
#[path = "documents/messages.rs"]
mod messages;
#[path = "documents/style.rs"]
mod style;

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::CommandFactory;

use man_page::ManPage;
use redlock::cli::{Cli, Shell};
use redlock::completions::script;

/// Compares a document with the file of that name, or writes the file.
fn check(name: &str, document: &str) {
    let path = root().join(name);
    if std::env::var_os("REDLOCK_WRITE_DOCUMENTS").is_some() {
        fs::write(&path, document).expect("a document is written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == document, "{name} is not up to date: REDLOCK_WRITE_DOCUMENTS=1 cargo test documents");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The command with all that clap adds to it.
fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// What no option says stands in a file of its own.
fn sections(name: &str) -> String {
    fs::read_to_string(root().join("man/sections").join(format!("{name}.roff"))).unwrap_or_default()
}

#[test]
fn documents_man_pages() {
    let command = command();
    check("man/redlock.1", &ManPage::of_program(&command).text(&sections("redlock")));
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let name = format!("redlock-{}", subcommand.get_name());
        check(&format!("man/{name}.1"), &ManPage::of_subcommand(subcommand).text(&sections(&name)));
    }
}

#[test]
fn documents_completions() {
    for (shell, name) in
        [(Shell::Bash, "redlock.bash"), (Shell::Zsh, "_redlock"), (Shell::Fish, "redlock.fish")]
    {
        check(&format!("completions/{name}"), &script(shell));
    }
}

fn pages() -> Vec<String> {
    let files = fs::read_dir(root().join("man")).expect("the folder").flatten().map(|file| file.path());
    let pages =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "1" || extension == "7"));
    pages.map(|path| path.display().to_string()).collect()
}

/// Both programs that read man pages.
#[test]
fn man_pages_are_clean() {
    for page in pages() {
        for reader in
            [&["mandoc", "-T", "lint", "-W", "style"][..], &["man", "--warnings=all", "-l", "-P", "cat"]]
        {
            let mut command = Command::new(reader[0]);
            let read =
                command.args(&reader[1..]).arg(&page).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8").output();
            let read = read.expect("a reader of man pages");
            let said = [if reader[0] == "mandoc" { &read.stdout[..] } else { &[] }, &read.stderr].concat();
            assert_eq!(String::from_utf8_lossy(&said), "", "{reader:?} {page}");
        }
    }
}

/// A page that is referred to is one of ours, or of every system.
#[test]
fn man_pages_refer_to_pages_that_exist() {
    let foreign = [
        "flock",
        "timeout",
        "ps",
        "sudo",
        "execve",
        "mount",
        "cron",
        "crontab",
        "systemd.timer",
        "logrotate",
        "env",
        "sched",
    ];
    let pages = pages();
    for page in &pages {
        let text = fs::read_to_string(page)
            .expect("a page")
            .replace("\\-", "-")
            .replace("\\fR", "")
            .replace(" (", "(");
        for (place, section) in
            ["(1)", "(5)", "(7)", "(8)"].iter().flat_map(|section| text.match_indices(section))
        {
            let name = text[..place]
                .rsplit(|c: char| !c.is_alphanumeric() && !"-._".contains(c))
                .next()
                .unwrap_or_default();
            let name = name.trim_start_matches("fB");
            let exists = pages.iter().any(|page| page.ends_with(&format!("/{name}.{}", &section[1..2])))
                || foreign.contains(&name);
            assert!(exists, "{page}: {name}");
        }
    }
}
