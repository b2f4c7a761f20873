//! What README.md, docs/ and the help say is typed and shown: all of it works as it stands there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use redlock::cli::GROUPS;

use crate::harness::{Folder, Redlock, Store, namespaces};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// What the lines run; each of these is a script that succeeds.
const COMMANDS: [&str; 16] = [
    "report",
    "backup",
    "backup.sh",
    "deploy.sh",
    "migrate",
    "switch-over",
    "reindex.sh",
    "publish.sh",
    "job",
    "a",
    "b",
    "make",
    "jq",
    "psql",
    "ledger.sh",
    "report.sh",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a document")
}

/// A folder in which `redlock` is the program.
fn with_program() -> Folder {
    let folder = Folder::new();
    symlink(PROGRAM, folder.path("redlock")).expect("its name");
    folder
}

fn path_with(folder: &Folder) -> String {
    format!("{}:{}", folder.path("").display(), std::env::var("PATH").unwrap_or_default())
}

/// The lines of code in a text.
fn code(text: &str) -> Vec<&str> {
    let (mut lines, mut is_fenced, mut is_session) = (Vec::new(), false, false);
    for line in text.lines() {
        is_session = is_session && !(is_fenced && line == "```") || line.contains("docs/session.sh");
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if (is_fenced || line.starts_with("    ")) && !is_session {
            lines.push(line.trim());
        }
    }
    lines
}

/// What a shell is given of the lines, without the crontab, the YAML or the other program in front of it.
fn commands(lines: &[&str]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let list = line.strip_prefix("command: [").and_then(|list| list.strip_suffix(']'));
        let line = list.map_or((*line).to_owned(), |list| list.replace(", ", " "));
        let begin = if line.starts_with("eval ") { Some(0) } else { line.find("redlock ") };
        let is_ours =
            |begin: &usize| !line[..*begin].ends_with(|c: char| c.is_alphanumeric() || "./#$".contains(c));
        match begin.filter(is_ours) {
            _ if goes_on => *commands.last_mut().expect("its begin") += &format!(" {line}"),
            Some(begin) if line[..begin].ends_with('\'') => {
                commands.push(line[begin..].trim_end_matches('\'').to_owned())
            }
            Some(begin) => commands.push(line[begin..].to_owned()),
            None => continue,
        }
        goes_on = line.ends_with("&&");
    }
    commands
}

/// The same for this machine, without long waits.
fn here(command: &str, store: &Store) -> String {
    let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    for place in 1..words.len() {
        if ["-S", "--server"].contains(&&*words[place - 1]) {
            words[place] = format!("'{}'", store.url);
        }
    }
    let command = words.join(" ").replace("/usr/local/bin/", "./").replace("--splay 20s", "--splay 20ms");
    let command = command.replace("--while-pid 4123", "--while-pid $$");
    let command = command.replace("/var/log/", "./").replace("/var/lib/prometheus/node-exporter/", "./");
    let asks = !command.contains("--yes");
    if asks { command.replace("redlock break", "redlock break --yes") } else { command }
}

fn run(command: &str) -> Result<(), String> {
    let store = Store::local();
    let folder = with_program();
    for name in COMMANDS {
        fs::write(folder.path(name), "#!/bin/sh\ncat >/dev/null\n").expect("a script");
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    for name in [".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"] {
        fs::create_dir_all(folder.path(name)).expect("a folder");
    }
    let line = here(command, &store);
    // A lock that the line takes for granted.
    let is_about_held = ["renew", "check", "release", "break"]
        .iter()
        .any(|name| line.starts_with(&format!("redlock {name}")));
    let before = match is_about_held {
        true if line.contains("--ran-within") => "redlock run nightly true;",
        true if line.contains("--token-file") => "redlock acquire -k deploy --token-file deploy.token;",
        true => "eval \"$(redlock acquire -k deploy --ttl 10m --format env)\";",
        false => "",
    };
    let shell = if line.contains("; or ") { "fish" } else { "bash" };
    // A shell that has nothing left to do becomes its last command, and has no pid of its own.
    let end = if shell == "fish" { "exit $status" } else { "exit $?" };
    let mut script = Redlock::under(shell, &["-c", &format!("{before} {line}\n{end}")]);
    script = script
        .env("PATH", path_with(&folder))
        .env("HOME", folder.path(""))
        .env("GITHUB_ENV", folder.path("env"));
    script.command.current_dir(folder.path(""));
    let run = script.server(&store.url).run();
    if run.code() == 0 { Ok(()) } else { Err(format!("{command}\n    {before} {line}\n    {run:?}")) }
}

#[test]
fn every_command_of_the_documents_works() {
    let mut texts = vec![read("README.md")];
    let docs = fs::read_dir(root().join("docs")).expect("the folder").flatten().map(|file| file.path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    texts.extend(docs.map(|path| fs::read_to_string(path).expect("a document")));
    let examples = |name: &&str| {
        let help = Redlock::new(&[name, "--help"]).run().expect(0).stdout;
        let (_, examples) = help.split_once("\nExamples:").expect("examples");
        examples.replace("\n  ", "\n    ")
    };
    // The examples of config are about files and servers that are not here.
    let subcommands = GROUPS.iter().flat_map(|(_, names)| names.iter()).filter(|name| **name != "config");
    texts.extend(subcommands.map(examples));
    let mut commands: Vec<String> = texts.iter().flat_map(|text| commands(&code(text))).collect();
    commands.sort();
    commands.dedup();
    assert!(commands.len() > 40, "{} commands: {commands:#?}", commands.len());
    let wrong: Vec<String> = commands.iter().filter_map(|command| run(command).err()).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Numbers and the width of columns differ from run to run.
fn shape(text: &str) -> Vec<String> {
    let numbers: String =
        text.chars().map(|c| if c.is_ascii_digit() || c == '.' { '0' } else { c }).collect();
    let mut shapes = Vec::new();
    for line in numbers.lines() {
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| {
                let mut word = word.to_owned();
                while word.contains("00") {
                    word = word.replace("00", "0");
                }
                word
            })
            .collect();
        shapes.push(words.join(" "));
    }
    shapes
}

/// The session at the top is one that the program had.
#[test]
fn the_session_of_the_readme() {
    if !namespaces() {
        return;
    }
    let folder = with_program();
    let session = Command::new(root().join("docs/session.sh"))
        .env("PATH", path_with(&folder))
        .output()
        .expect("a session");
    assert!(session.status.success(), "{session:?}");
    let session = String::from_utf8(session.stdout).expect("text");
    let readme = read("README.md");
    let (before, rest) = readme.split_once("session.sh -->\n```\n").expect("its place");
    let (shown, after) = rest.split_once("```\n").expect("its end");
    if std::env::var_os("REDLOCK_WRITE_DOCUMENTS").is_some() {
        let text = format!("{before}session.sh -->\n```\n{session}```\n{after}");
        fs::write(root().join("README.md"), text).expect("the README");
    } else {
        assert_eq!(shape(shown), shape(&session), "REDLOCK_WRITE_DOCUMENTS=1 cargo test --test cli readme");
    }
}
