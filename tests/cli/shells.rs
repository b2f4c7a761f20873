//! `acquire --format env|fish`: the lines of the documents, as they stand there, in each shell.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Finished, Pty, Redlock, Store, children, eventually, free_port};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");
const POSIX: [&[&str]; 6] =
    [&["bash", "--norc"], &["dash"], &["zsh", "-f"], &["busybox", "sh"], &["ksh93"], &["mksh"]];
const FISH: &[&str] = &["fish", "-N"];
/// What ends a script when redlock itself cannot.
const LAST_WORDS: [&str; 2] = [" || echo exit $?", "; or command echo exit $status"];

/// The lines for a format in the README, in the manual page and in the help.
fn lines(format: &str) -> BTreeSet<String> {
    let help = Redlock::new(&["acquire", "--help"]).run().expect(0).stdout;
    let page = include_str!("../../man/redlock-acquire.1").replace(r"\-", "-");
    let mut all = BTreeSet::new();
    for text in [include_str!("../../README.md"), &page, &help] {
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with("eval "));
        let own: Vec<&str> = lines.filter(|line| line.contains(&format!("--format {format}"))).collect();
        assert!(!own.is_empty() || format == "fish" && text == help, "{text}");
        all.extend(own.into_iter().map(str::to_owned));
    }
    assert!(all.iter().all(|line| LAST_WORDS.iter().any(|words| line.contains(words))), "{all:?}");
    all
}

/// The line with another key in it, as the shell is to write it.
fn with_key(line: &str, key: &str) -> String {
    line.replace("-k deploy", &format!("-k {key}")).replace("-k report", &format!("-k {key}"))
}

/// A script in a shell that finds the program by its name.
fn script(store: &Store, shell: &[&str], script: &str, args: &[&str]) -> Redlock {
    let args = [&shell[1..], &["-c", script], args].concat();
    let path = Path::new(PROGRAM).parent().expect("its folder").display().to_string();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    let home = store.folder.path("");
    store
        .reached_by(Redlock::under(shell[0], &args))
        .env("PATH", path)
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8")
}

const ODD: [&str; 20] = [
    "two  words",
    " ",
    "*",
    "a?[b]{c,d}",
    "'",
    "''",
    "it's",
    "\"`$(id)",
    r"\",
    r"a\",
    r"\\",
    r"\n",
    r"\'",
    "$HOME",
    "!!",
    "~",
    "#;&|<>()",
    "%s",
    "é\u{a0}\u{2764}\u{fe0f}",
    "\u{f601}\u{e000}\u{10ffff}",
];

#[test]
fn odd_keys_come_through() {
    let store = Store::local();
    let job = r#"printf '%s\n' "$REDLOCK_KEY" && redlock check --for 1s && redlock release"#;
    for shell in POSIX {
        for line in lines("env") {
            let loop_ = format!("for key; do\n{}\n{job}\ndone", with_key(&line, r#""$key""#));
            let args: Vec<&str> = ["name"].into_iter().chain(ODD).collect();
            let done = script(&store, shell, &loop_, &args).run().expect(0);
            assert_eq!(
                (done.stdout.lines().collect::<Vec<_>>(), &*done.stderr),
                (ODD.to_vec(), ""),
                "{shell:?} {line}"
            );
        }
    }
    let job = "; and printf '%s\\n' $REDLOCK_KEY; and redlock check --for 1s; and redlock release";
    for line in lines("fish") {
        let loop_ = format!("for key in $argv\n{}{job}\nend", with_key(&line, "$key"));
        let done = script(&store, FISH, &loop_, &ODD).run().expect(0);
        assert_eq!((done.stdout.lines().collect::<Vec<_>>(), &*done.stderr), (ODD.to_vec(), ""), "{line}");
    }
}

/// A key of what shells treat in a special way, and of what needs more than a byte.
fn random_key(random: &mut fastrand::Rng) -> String {
    let special = "'\"\\`$!*?[]{}()<>|&;#~^%= -,:@+/x0é\u{a0}\u{2764}\u{fe0f}\u{f601}\u{10ffff}";
    let special: Vec<char> = special.chars().collect();
    let key: String = (0..random.usize(1..30))
        .map(|_| match random.bool() {
            true => special[random.usize(..special.len())],
            false => char::from(random.u8(b' '..=b'~')),
        })
        .collect();
    // Such a word is an option.
    if key.starts_with('-') { format!("x{key}") } else { key }
}

#[test]
fn random_keys_come_through() {
    let store = Store::local();
    let mut random = fastrand::Rng::new();
    for (shell, format) in POSIX.iter().map(|shell| (*shell, "env")).chain([(FISH, "fish")]) {
        let keys: Vec<String> = (0..15).map(|_| random_key(&mut random)).collect();
        let line = lines(format).pop_first().expect("a line");
        let text = if format == "fish" {
            let job = "; and printf '%s\\n' $REDLOCK_KEY; and redlock release";
            format!("for key in $argv\n{}{job}\nend", with_key(&line, "$key"))
        } else {
            let job = r#"printf '%s\n' "$REDLOCK_KEY" && redlock release"#;
            format!("for key; do\n{}\n{job}\ndone", with_key(&line, r#""$key""#))
        };
        let name = (format == "env").then_some("name");
        let args: Vec<&str> = name.into_iter().chain(keys.iter().map(String::as_str)).collect();
        let done = script(&store, shell, &text, &args).run().expect(0);
        assert_eq!(
            (done.stdout.lines().collect::<Vec<_>>(), &*done.stderr),
            (keys.iter().map(String::as_str).collect(), ""),
            "{shell:?} {line}"
        );
    }
}

/// The environment has a line for each.
#[test]
fn several_odd_keys_come_through() {
    let store = Store::local();
    for (shell, format) in POSIX.iter().map(|shell| (*shell, "env")).chain([(FISH, "fish")]) {
        for line in lines(format) {
            let line = with_key(line.trim_end_matches(" &&"), r#""it's" -k 'b c\\'"#);
            let all = format!("{line}\nprintf '%s' \"$REDLOCK_KEY\"; redlock release");
            let done = script(&store, shell, &all, &[]).run().expect(0);
            // In the single quotes of fish, two backslashes are one.
            let expected = if format == "fish" { "b c\\\nit's" } else { "b c\\\\\nit's" };
            assert_eq!((&*done.stdout, &*done.stderr), (expected, ""), "{shell:?} {line}");
        }
    }
}

/// A script whose lock is not to be had, with the lock `outer` in its environment.
struct Scene {
    store: Store,
    token: String,
}

impl Scene {
    fn new() -> Scene {
        let store = Store::local();
        let token = store.redlock(&["acquire", "-k", "outer", "--ttl", "1h"]).run().expect(0).stdout;
        store.redlock(&["acquire", "-k", "deploy", "--ttl", "1h"]).run().expect(0);
        store.redlock(&["acquire", "-k", "report", "--ttl", "1h"]).run().expect(0);
        Scene { token: token.trim().to_owned(), store }
    }

    fn script(&self, shell: &[&str], text: &str) -> Redlock {
        let script = script(&self.store, shell, text, &[]);
        script.env("REDLOCK_KEY", "outer").env("REDLOCK_TOKEN", &self.token).env("REDLOCK_FENCE", "1")
    }

    /// The shell at a prompt.
    fn prompt(&self, shell: &[&str], args: &[&str]) -> Command {
        let variables = self.script(shell, "").command;
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg("-i").args(args).env_clear().env("TERM", "dumb");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(variables.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Neither what follows nor what is asked for at the end of the script sees the other lock.
    #[track_caller]
    fn stops(&self, script: Redlock, code: i32, text: &str) -> Finished {
        let stopped = script.run();
        assert_eq!((stopped.code(), &*stopped.stdout), (code, "none\n"), "{text}: {stopped:?}");
        assert!(!stopped.stderr.contains(&self.token), "{stopped:?}");
        stopped
    }
}

/// The lines for POSIX shells, to be tried without waiting, and the same without their last words.
fn with_and_without_last_words() -> Vec<String> {
    let lines = lines("env").into_iter().map(|line| line.replace("--wait", "--no-wait"));
    lines.flat_map(|line| [line.replace(LAST_WORDS[0], ""), line]).collect()
}

/// One of the lines for this shell, by itself.
fn a_line(shell: &[&str]) -> String {
    let line = lines(if shell == FISH { "fish" } else { "env" }).pop_first().expect("a line");
    line.trim_end_matches(" &&").replace("--wait", "--no-wait")
}

const TRAP: &str = r#"trap 'printf "%s\n" "${REDLOCK_TOKEN-none}"' EXIT"#;

#[test]
fn a_script_ends_that_does_not_get_its_lock() {
    let scene = Scene::new();
    let file = scene.store.folder.path("sourced");
    for line in with_and_without_last_words() {
        let after = format!("{line}\necho went on\necho went on");
        fs::write(&file, &after).expect("a file");
        for shell in POSIX {
            for text in [
                format!("{TRAP}\n{after}"),
                format!("set -eu\n{TRAP}\n{after}"),
                format!("{TRAP}\nf() {{\n{after}\n}}\nf || echo in vain\necho went on"),
                format!("{TRAP}\n. '{}'\necho went on", file.display()),
            ] {
                let stopped = scene.stops(scene.script(shell, &text), 75, &format!("{shell:?} {text}"));
                assert!(stopped.line().contains("is held by"), "{stopped:?}");
            }
        }
    }
    assert!(scene.store.status("outer")["holders"][0].is_object());
}

/// Whatever the reason, and also when the command line is not understood.
#[test]
fn a_script_ends_with_the_exit_status_of_redlock() {
    let scene = Scene::new();
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    for line in with_and_without_last_words() {
        let text = format!("{TRAP}\n{line}\necho went on\necho went on");
        let mistyped = text.replace("--format", "--tll 5m --format");
        let joined = text
            .replace("-k deploy", "-k ''")
            .replace("-k report", "-k ''")
            .replace("--format ", "--format=");
        for shell in POSIX {
            let shown = format!("{shell:?} {text}");
            scene.stops(scene.script(shell, &text).server(&nobody), 69, &shown);
            scene.stops(scene.script(shell, &text).env("REDLOCK_CONFIG", "/no/such/file"), 78, &shown);
            scene.stops(scene.script(shell, &mistyped), 64, &shown);
            scene.stops(scene.script(shell, &joined), 64, &shown);
        }
    }
}

/// Its last words end a script when redlock cannot print anything.
#[test]
fn a_script_ends_when_redlock_is_missing_or_killed() {
    let scene = Scene::new();
    let dead = scene.store.folder.path("redlock");
    fs::write(&dead, "#!/bin/sh\nkill -9 $$\n").expect("a program");
    fs::set_permissions(&dead, fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = std::env::var("PATH").unwrap_or_default();
    let killed = format!("{}:{path}", scene.store.folder.path("").display());
    for (shell, format) in POSIX.iter().map(|shell| (*shell, "env")).chain([(FISH, "fish")]) {
        for line in lines(format) {
            let text = format!("{line}\necho went on\necho went on");
            let missing =
                scene.script(shell, &text.replace("(redlock", "(no-such-redlock")).run().expect(127);
            let killed = scene.script(shell, &text).env("PATH", &killed).run();
            // In ksh it is not 128 and the signal.
            assert_ne!(killed.code(), 0, "{shell:?} {line}: {killed:?}");
            assert_eq!(missing.stdout + &killed.stdout, "", "{shell:?} {line}");
        }
    }
}

/// SIGTERM to redlock alone, while it waits in line.
#[test]
fn a_script_ends_when_redlock_is_told_to_end() {
    let scene = Scene::new();
    let text = format!("{TRAP}\neval \"$(redlock acquire -k deploy --wait -q --format env)\"\necho went on");
    let running = scene.script(&["bash"], &text).spawn();
    scene.store.await_waiters("deploy", 1);
    let redlock = children(running.pid())[0];
    kill(Pid::from_raw(redlock), Signal::SIGTERM).expect("a signal");
    let stopped = running.finish().expect(143);
    assert_eq!(stopped.stdout, "none\n", "{stopped:?}");
}

#[test]
fn a_fish_script_ends_that_does_not_get_its_lock() {
    let scene = Scene::new();
    let trap = "function at_end --on-event fish_exit; set -q REDLOCK_TOKEN; or echo none; end";
    for line in lines("fish").into_iter().flat_map(|line| [line.replace(LAST_WORDS[1], ""), line]) {
        let line = line.replace("--wait", "--no-wait");
        let file = scene.store.folder.path("sourced");
        fs::write(&file, format!("{line}\necho went on")).expect("a file");
        for (text, code) in [
            (format!("{trap}\n{line}\necho went on"), 75),
            (format!("{trap}\nfunction f\n{line}\necho went on\nend\nf; or echo in vain\necho went on"), 75),
            (format!("{trap}\nsource '{}'; or exit\necho went on", file.display()), 75),
            (format!("{trap}\n{}\necho went on", line.replace("--format", "--tll 5m --format")), 64),
        ] {
            scene.stops(scene.script(FISH, &text), code, &text);
        }
    }
    assert!(scene.store.status("outer")["holders"][0].is_object());
}

/// With the flag of a prompt (`-i`), and without one: nobody would see that the rest went on.
#[test]
fn a_script_of_an_interactive_shell_ends() {
    let scene = Scene::new();
    let file = scene.store.folder.path("script");
    for shell in POSIX.into_iter().chain([FISH]) {
        let line = a_line(shell);
        fs::write(&file, format!("{line}\necho went on\n")).expect("a file");
        let mut piped = scene.prompt(shell, &[]);
        piped.stdin(fs::File::open(&file).expect("the file"));
        let piped = Redlock { command: piped }.run().expect(75);
        assert!(!piped.stdout.contains("went on"), "{piped:?}");
        let mut pty = Pty::start(scene.prompt(shell, &[file.to_str().expect("a path")]));
        // In some it is Ctrl-C that ends it.
        assert!([75, 130].contains(&pty.finish()), "{shell:?}: {}", pty.screen());
        assert!(!pty.screen().contains("went on"), "{}", pty.screen());
    }
}

/// The shell stays; what is joined to the line does not run, nor the rest of a function or of a sourced file.
#[test]
fn a_prompt_comes_back() {
    let scene = Scene::new();
    let file = scene.store.folder.path("sourced");
    for shell in POSIX.into_iter().chain([FISH]) {
        let is_fish = shell == FISH;
        let line = a_line(shell);
        let (function, joined, token) = if is_fish {
            (format!("function f; {line}; echo went''on; end"), "; and", "$REDLOCK_TOKEN")
        } else {
            (format!("f() {{ {line}; echo went''on; }}"), " &&", "${REDLOCK_TOKEN-}")
        };
        fs::write(&file, "f\necho went on\n").expect("a file");
        let mut pty = Pty::start(scene.prompt(shell, &[]));
        // What is typed while a shell starts, or hears of a signal, may be thrown away.
        let mut until = |keys: &str, text: &str, times: usize| {
            let mut next = Instant::now();
            eventually(Duration::from_secs(60), &format!("{text:?} in {shell:?}"), || {
                if next <= Instant::now() {
                    pty.send(&format!("{keys}\n"));
                    next += Duration::from_secs(3);
                }
                pty.screen().matches(text).count() >= times
            });
        };
        until("echo rea''dy", "ready", 1);
        until(&format!("{line}{joined} echo went''on"), "is held by", 1);
        until(&format!("echo 'is '\"here <{token}>\""), "is here <>", 1);
        until(&format!("{function}; f"), "is held by", 2);
        until("echo st''ill", "still", 1);
        until(&format!(". '{}'", file.display()), "is held by", 3);
        until("echo at ''last", "at last", 1);
        let screen = pty.screen();
        assert!(!screen.contains("wenton") && !screen.contains("went on"), "{screen}");
    }
}
