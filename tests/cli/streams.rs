//! Standard streams, descriptors and environment are as if the command had been started alone.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::harness::{Redlock, Store, log_command, with_default_signals};

/// A shell script in which `redlock` is the program and `$R` is `redlock run -k X --`.
fn shell(store: &Store, script: &str) -> crate::harness::Finished {
    let mut redlock = Redlock::new(&[]);
    let program = env!("CARGO_BIN_EXE_redlock");
    let script = format!("redlock() {{ {program} \"$@\"; }}; R='{program} run -k X --'; {script}");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .env_clear()
        .envs(redlock.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
        .env("REDLOCK_SERVER", &store.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    with_default_signals(&mut command);
    redlock.command = command;
    redlock.run()
}

#[test]
fn nothing_of_its_own() {
    let store = Store::local();
    let run = store.redlock(&["run", "-k", "X", "--", "echo", "hello"]).run().expect(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("hello\n", ""));
}

#[test]
fn stdin_reaches_the_command() {
    let store = Store::local();
    let mut run = store.redlock(&["run", "-k", "X", "--", "cat"]);
    run.command.stdin(Stdio::piped());
    let mut run = run.spawn();
    run.child.stdin.take().expect("its stdin").write_all(b"through\n").expect("a write");
    assert_eq!(run.finish().expect(0).stdout, "through\n");
}

/// Of a script that names no interpreter, which the C library copies.
#[test]
fn many_words() {
    let store = Store::local();
    let script = store.folder.path("script");
    std::fs::write(&script, "echo $#\n").expect("a script");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("its mode");
    let words = vec!["word"; 100_000];
    let args = [&["run", "-k", "X", "--", script.to_str().expect("a path")], &words[..]].concat();
    assert_eq!(store.redlock(&args).run().expect(0).stdout, "100000\n");
}

/// The command has the descriptors that it has without redlock, and no other: closed ones are closed.
#[test]
fn descriptors_are_the_callers() {
    let store = Store::local();
    for redirections in ["", "<&-", ">&-", "2>&-", "7</dev/null", "<&- >&- 2>&- 7</dev/null"] {
        let folder = store.folder.path("out");
        let list = format!("sh -c 'ls -l /proc/$$/fd >{folder:?} 2>/dev/null'");
        let seen = |prefix: &str| {
            shell(&store, &format!("{prefix} {list} {redirections}")).expect(0);
            let text = std::fs::read_to_string(&folder).expect("a list");
            let fds = text.lines().filter_map(|line| Some(line.split_whitespace().nth(8)?.to_owned()));
            fds.collect::<Vec<_>>()
        };
        assert_eq!(seen("$R"), seen(""), "{redirections}");
    }
}

#[test]
fn a_reader_sees_the_end_when_the_command_closes_stdout() {
    let store = Store::local();
    let end = store.folder.path("end");
    let job = format!("echo one; exec >&-; while [ ! -e {end:?} ]; do sleep 0.05; done");
    let out = shell(&store, &format!("$R sh -c '{job}' | (cat; echo closed; touch {end:?})")).expect(0);
    assert_eq!(out.stdout, "one\nclosed\n");
}

#[test]
fn a_pipe_that_breaks_ends_the_command_and_frees_the_lock() {
    let store = Store::local();
    let out = shell(&store, "$R yes | head -1; echo ${PIPESTATUS[0]}");
    assert_eq!(out.stdout, "y\n141\n");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

#[test]
fn the_environment_names_the_lock() {
    let store = Store::local();
    let script = r#"echo "$REDLOCK_KEY $REDLOCK_TOKEN $REDLOCK_FENCE""#;
    let out = store.redlock(&["run", "-k", "X y", "-c", "--", script]).run().expect(0).stdout;
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!((words[0], words[1], words[2].len()), ("X", "y", 36));
    assert!(words[3].parse::<u64>().is_ok(), "{out}");
}

/// A token that reaches nobody could never be given back.
#[test]
fn acquire_gives_back_what_it_cannot_print() {
    let store = Store::local();
    let closed = shell(&store, "redlock acquire -k X >&-").expect(64);
    assert!(closed.line().contains("--token-file"), "{closed:?}");
    let full = shell(&store, "redlock acquire -k X >/dev/full").expect(1);
    assert!(full.line().contains("released 'X'"), "{full:?}");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

#[test]
fn a_closed_stderr_keeps_nobody_from_giving_back() {
    let store = Store::local();
    // With a process left behind there is a warning to write.
    let out = shell(&store, "$R sh -c 'sleep 100 >&- & echo $!; exit 3' 2>&-").expect(3).stdout;
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    shell(&store, &format!("kill {out}")).expect(0);
}

/// The name of a key was chosen by others, too: marks that turn text never reach the terminal, nor a reader of JSON
/// who shows it.
#[test]
fn hostile_keys_are_harmless() {
    let store = Store::local();
    let key = "safe\u{202e}desrever\u{2066}\u{e0041}";
    let holder = store.hold(key, &[]);
    let table = store.redlock(&["status"]).run().expect(0);
    let json = store.redlock(&["status", "--json"]).run().expect(0);
    let refused = store.redlock(&["run", "-k", key, "--", "true"]).run().expect(75);
    holder.let_go().expect(0);
    let read: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(read[0]["key"], key);
    for text in [table.stdout, json.stdout, refused.stderr] {
        assert!(text.contains("safe") && text.contains("desrever"), "{text:?}");
        let harmful = text.chars().find(|c| ['\u{202e}', '\u{2066}', '\u{e0041}'].contains(c));
        assert_eq!(harmful, None, "{text:?}");
    }
}

/// Nor do commands reach the runner of a CI system.
#[test]
fn a_key_is_no_command_of_a_log() {
    let store = Store::local();
    for key in ["::add-mask::x", " ::x::", "##[set-output name=x]y", "#\u{fe0f}#[x]"] {
        store.redlock(&["acquire", "-k", key]).run().expect(0);
        let table = store.redlock(&["status"]).run().expect(0).stdout;
        let json = store.redlock(&["status", "--json", "--", key]).run().expect(0).stdout;
        let refused = store.redlock(&["run", "-k", key, "--", "true"]).run().expect(75).stderr;
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read[0]["key"], key);
        for text in [table, json, refused] {
            assert_eq!(log_command(&text.replace('\u{fe0f}', "")), None, "{text:?}");
        }
    }
}

/// Another program took the lock for ever.
#[test]
fn a_lease_that_never_ends() {
    let store = Store::redis();
    store.redis.as_ref().expect("a Redis").cli(&["set", "X", "token"]);
    let check = store.redlock(&["check", "-v", "-k", "X", "--token", "token", "--for", "366d"]);
    let check = check.run().expect(0);
    assert_eq!(check.line(), "redlock: 'X' is held forever");
}
