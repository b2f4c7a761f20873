//! What the Tab key does, in the real shells.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Folder, Pty, Redlock, Store};

/// The line before Tab, and the words that the shell then has.
const LINES: [(&str, &str); 22] = [
    ("redlock stat", "<status>"),
    ("redlock run --leftovers wa", "<run><--leftovers><wait>"),
    ("redlock run --confl", "<run><--conflict-exit-code"),
    ("redlock acquire --while", "<acquire><--while-pid>"),
    // Each subcommand has words of its own.
    ("redlock status --format prom", "<status><--format><prometheus>"),
    ("redlock acquire --format git", "<acquire><--format><github>"),
    ("redlock status --format git", "<status><--format><git>"),
    ("redlock status --color alw", "<status><--color><always>"),
    ("redlock run --server loc", "<run><--server><local:>"),
    ("redlock completions zs", "<completions><zsh>"),
    // A file where a file goes, and nowhere else.
    ("redlock run --password-file can", "<run><--password-file><canary>"),
    ("redlock run -k can", "<run><-k><can>"),
    ("redlock status can", "<status><can>"),
    ("redlock run -k x --ttl can", "<run><-k><x><--ttl><can>"),
    // The command's own words.
    ("redlock run -k x -- ls --almost", "<run><-k><x><--><ls><--almost-all>"),
    ("redlock run x ls --almost", "<run><x><ls><--almost-all>"),
    (
        "redlock run -S redis://h:1 --wait -k x ls --almost",
        "<run><-S><redis://h:1><--wait><-k><x><ls><--almost-all>",
    ),
    ("redlock run -w 5m x -- ls can", "<run><-w><5m><x><--><ls><canary>"),
    // A key, and then an option. A name is no limit of --wait.
    ("redlock run x --timeo", "<run><x><--timeout>"),
    ("redlock run -w x ls --almost", "<run><-w><x><ls><--almost-all>"),
    ("redlock run x -w ls --almost", "<run><x><-w><ls><--almost-all>"),
    ("redlock run --tls-key two", "<run><--tls-key><two words>"),
];

/// A shell at a terminal, in a folder with two files, the canary and "two words". `redlock` prints its words.
struct Shell {
    pty: Pty,
    folder: Folder,
    _store: Store,
}

impl Shell {
    fn start(shell: &[&str], name: &str, setup: &[&str], keys: &[&str]) -> Shell {
        let folder = Folder::new();
        let script = Redlock::new(&["completions", name]).run().expect(0).stdout;
        let file = folder.path(".completion");
        fs::write(&file, script).expect("a file");
        for file in ["canary", "two words"] {
            fs::write(folder.path(file), "").expect("a file");
        }
        let store = Store::local();
        let other = format!("local:{}", folder.path("other.db").display());
        for (url, key) in keys.iter().map(|key| (&store.url, *key)).chain([(&other, "other")]) {
            // They outlive the slowest shell.
            Redlock::new(&["acquire", "--ttl=1h", &format!("--key={key}")]).server(url).run().expect(0);
        }
        let config = "[servers.production]\nserver = \"redis://h\"\n[profiles.cron]\nquiet = true\n[pools.phones.a]\n[pools.phones.b]\n";
        fs::write(folder.path(".config"), config).expect("a file");
        let program = Path::new(env!("CARGO_BIN_EXE_redlock")).parent().expect("its folder").display();
        let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).current_dir(folder.path("")).env("HOME", folder.path(""));
        command.env("TERM", "dumb").env("PATH", path);
        // `.config` is a file: without this, fish makes its folders at the root.
        command.env("XDG_CONFIG_HOME", store.folder.path(""));
        command.env("REDLOCK_SERVER", &store.url).env("REDLOCK_CONFIG", folder.path(".config"));
        let mut pty = Pty::start(command);
        for line in setup {
            pty.send(&format!("{}\n", line.replace("SCRIPT", &format!("'{}'", file.display()))));
        }
        pty.send("echo rea''dy\n");
        pty.expect("ready");
        Shell { pty, folder, _store: store }
    }
}

fn completes(shell: &[&str], name: &str, setup: &[&str]) {
    let mut shell = Shell::start(shell, name, setup, &["deploy", "nightly/db", "-k"]);
    for (line, expected) in LINES.into_iter().chain(KNOWN) {
        shell.pty.send(&format!("{line}\t\n"));
        shell.pty.expect(&format!("words:{expected}"));
    }
}

/// What redlock knows, for lines that begin with its own name.
const KNOWN: [(&str, &str); 11] = [
    ("redlock release dep", "<release><deploy>"),
    ("redlock status nigh", "<status><nightly/db>"),
    ("redlock break -k dep", "<break><-k><deploy>"),
    ("redlock run nigh", "<run><nightly/db>"),
    // Of another store.
    ("redlock -S local:./other.db release oth", "<-S><local:./other.db><release><other>"),
    ("redlock -Slocal:./other.db release oth", "<-Slocal:./other.db><release><other>"),
    ("redlock status -S prod", "<status><-S><production>"),
    ("redlock run --profile cr", "<run><--profile><cron>"),
    ("redlock run --pool pho", "<run><--pool><phones>"),
    // The pool names the keys, so the next word is the command.
    ("redlock run --pool phones unam", "<run><--pool><phones><uname>"),
    // A store that does not answer has none, and says nothing.
    ("redlock -S redis://127.0.0.1:1 check dep", "<-S><redis://127.0.0.1:1><check><dep>"),
];

#[test]
fn in_bash() {
    let redlock = r#"redlock() { printf words:; printf '<%s>' "$@"; echo :; }"#;
    let setup = ["source /usr/share/bash-completion/bash_completion", "source SCRIPT", redlock];
    completes(&["bash", "--norc", "-i"], "bash", &setup);
}

/// Behind a quote a key would have to be written otherwise: only plain ones are offered there.
#[test]
fn a_hostile_key_runs_nothing() {
    let redlock = r#"redlock() { printf words:; printf '<%s>' "$@"; echo :; }"#;
    let with_completion = "source /usr/share/bash-completion/bash_completion";
    for key in ["dep$(touch PWNED)\u{e9}", "dep`touch PWNED`\u{378}"] {
        for setup in [&["source SCRIPT", redlock][..], &[with_completion, "source SCRIPT", redlock]] {
            let mut shell = Shell::start(&["bash", "--norc", "-i"], "bash", setup, &[key]);
            for quote in ["\"", "'"] {
                // What is still open then is closed on the next line.
                shell.pty.send(&format!("redlock status {quote}dep\t\n{quote}\n"));
                shell.pty.expect("words:<status><dep");
                assert!(!shell.folder.path("PWNED").exists(), "{key} behind {quote}");
            }
        }
    }
}

#[test]
fn in_zsh() {
    let redlock = r#"redlock() { printf words:; printf '<%s>' "$@"; echo :; }"#;
    completes(
        &["zsh", "-f", "-i"],
        "zsh",
        &["autoload -U compinit; compinit -u -D", "source SCRIPT", redlock],
    );
}

#[test]
fn in_fish() {
    let redlock = "function redlock; printf words:; printf '<%s>' $argv; echo :; end";
    completes(&["fish", "-i"], "fish", &["source SCRIPT", redlock]);
}
