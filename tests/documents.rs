//! Man pages and completions, made from the argument definitions. They are checked in; the tests compare.
//! `REDLOCK_WRITE_DOCUMENTS=1 cargo test documents` writes them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use redlock::cli::Cli;

/// Compares a document with the file of that name, or writes the file.
fn check(name: &str, document: &[u8]) {
    let path = root().join(name);
    if std::env::var_os("REDLOCK_WRITE_DOCUMENTS").is_some() {
        fs::write(&path, document).expect("a document is written");
    }
    let stored = fs::read(&path).unwrap_or_default();
    assert!(stored == document, "{name} is not up to date: REDLOCK_WRITE_DOCUMENTS=1 cargo test documents");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The command with all that clap adds to it.
fn command() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn page(command: &Command, name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    // clap keeps names for ever.
    let own: &'static str = name.to_owned().leak();
    let command = command.clone().name(own).bin_name(name.replacen('-', " ", 1)).display_name(own);
    let man = Man::new(command)
        .title(name.to_uppercase())
        .section("1")
        .date("")
        .source("redlock")
        .manual("User Commands");
    man.render(&mut text).expect("a man page in memory");
    // What no option says stands in a file of its own.
    let more: PathBuf = root().join("man/sections").join(format!("{name}.roff"));
    text.extend(fs::read(more).unwrap_or_default());
    text
}

#[test]
fn documents_man_pages() {
    let command = command();
    check("man/redlock.1", &page(&command, "redlock"));
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let name = format!("redlock-{}", subcommand.get_name());
        // The global options are explained once, at the top.
        let own = subcommand.clone().mut_args(|arg| {
            let global = arg.is_global_set();
            arg.hide(global)
        });
        check(&format!("man/{name}.1"), &page(&own, &name));
    }
}

#[test]
fn documents_completions() {
    for (shell, name) in
        [(Shell::Bash, "redlock.bash"), (Shell::Zsh, "_redlock"), (Shell::Fish, "redlock.fish")]
    {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "redlock", &mut script);
        check(&format!("completions/{name}"), &script);
    }
}
