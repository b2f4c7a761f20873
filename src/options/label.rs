//! What others see of a command when no label is given: its arguments may be secret.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Run a script that is their first argument.
const INTERPRETERS: [&str; 16] = [
    "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "python", "perl", "ruby", "node", "php",
    "lua", "tclsh", "Rscript",
];

/// The name of the program, and of the script if it is an interpreter: `mysql`, `sh backup.sh`.
pub fn of_command(command: &[OsString]) -> String {
    let mut words = command.iter().map(|word| file_name(word));
    let program = words.next().unwrap_or_default();
    // python3.11
    let interpreter = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let script = words.next().filter(|_| INTERPRETERS.contains(&interpreter)).filter(|word| is_script(word));
    script.map_or_else(|| program.clone(), |script| format!("{program} {script}"))
}

fn file_name(word: &OsStr) -> String {
    Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned()
}

/// Neither an option, with code or a password behind it, nor an assignment, code or a URL.
fn is_script(word: &str) -> bool {
    !word.starts_with(['-', '+']) && !word.contains(|c: char| c.is_whitespace() || "=:@".contains(c))
}

#[test]
fn arguments_are_not_shown() {
    let label = |line: &str| of_command(&line.split('|').map(OsString::from).collect::<Vec<_>>());
    for (command, expected) in [
        ("mysql|-psecret|db", "mysql"),
        ("/usr/local/bin/backup|--key=secret", "backup"),
        ("sh|./jobs/backup.sh|secret", "sh backup.sh"),
        ("/usr/bin/python3.11|report.py|secret", "python3.11 report.py"),
        ("bash|-c|mysql -psecret", "bash"),
        ("perl|-e|secret", "perl"),
        ("sh|mysql -psecret", "sh"),
        ("env|PASSWORD=secret|mysql", "env"),
        ("bash|PASSWORD=secret", "bash"),
        ("node|https://user:secret@host", "node"),
        ("curl|https://user:secret@host/", "curl"),
        ("..|secret", ".."),
        ("", ""),
    ] {
        assert_eq!(label(command), expected, "{command}");
    }
}
