//! `status --watch`, on a terminal.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::harness::{Pty, Store, Tmux, await_file, children, eventually, is_alive};

const SOON: Duration = Duration::from_secs(20);
const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");
const LARGE: [u32; 2] = [200, 50];

fn watch(store: &Store, size: [u32; 2], args: &str) -> Tmux {
    Tmux::start(store, size, &format!("{}.tmux", size[0]), &format!("{PROGRAM} status --watch {args}"))
}

fn await_line(terminal: &Tmux, what: &str, is_it: impl Fn(&str) -> bool) {
    eventually(SOON, what, || terminal.lines(&[]).iter().any(|line| is_it(line)));
}

/// Comes, waits and goes: each is seen, and said below.
#[test]
fn it_follows_the_locks() {
    let store = Store::redis();
    let first = store.hold("deploy", &["--label", "make"]);
    let terminals = [[80, 24], LARGE].map(|size| watch(&store, size, ""));
    for (terminal, [_, rows]) in terminals.iter().zip([[80, 24], LARGE]) {
        await_line(terminal, "the holder", |line| {
            line.starts_with("deploy  held ") && line.ends_with("make")
        });
        let lines = terminal.lines(&[]);
        assert!(lines[0].starts_with("redlock: 1 lock, 0 waiting"), "{lines:#?}");
        assert!(lines[2].contains('█'), "{lines:#?}");
        assert_eq!(terminal.says("#{alternate_on}#{cursor_flag}"), "10");
        assert_eq!(terminal.says("#{pane_height}"), rows.to_string());
    }
    let next = store.redlock(&["run", "-k", "deploy", "--wait", "--", "cat"]).open_stdin().spawn();
    for terminal in &terminals {
        await_line(terminal, "the waiter", |line| line.trim_start().starts_with("waiting 1"));
        await_line(terminal, "its event", |line| line.contains("  'deploy' is waited for by "));
    }
    let (held, waits) = (first.pid(), next.pid());
    first.let_go().expect(0);
    for terminal in &terminals {
        await_line(terminal, "the end", |line| {
            line.contains("'deploy' is not held by ") && line.contains(&format!("(pid {held}"))
        });
        await_line(terminal, "the next one", |line| {
            line.contains("'deploy' is held by ") && line.contains(&format!("(pid {waits}"))
        });
        terminal.resize([60, 12]);
        await_line(terminal, "a smaller screen", |line| {
            line.starts_with("── events ") && line.chars().count() == 60
        });
    }
    next.let_go().expect(0);
    terminals.iter().for_each(|terminal| await_line(terminal, "none", |line| line == "no locks are in use"));
}

#[test]
fn the_keys_find_and_break_a_lock() {
    let store = Store::local();
    let holders = ["apple", "banana", "cherry"].map(|key| store.hold(key, &["--label", "job"]));
    let log = store.folder.path("log");
    let terminal = watch(&store, [80, 24], &format!("--log-file {}", log.display()));
    await_line(&terminal, "all", |line| line.starts_with("cherry"));
    terminal.press(&["/", "b", "a", "n", "Enter"]);
    await_line(&terminal, "one", |line| line.starts_with("redlock: 1 of 3 locks"));
    terminal.press(&["Enter"]);
    await_line(&terminal, "it in full", |line| line.contains("alive: renewed "));
    terminal.press(&["b"]);
    await_line(&terminal, "a question", |line| line.contains("[y/N]"));
    terminal.press(&["y", "s", "t", "u", "c", "k", "Enter"]);
    await_line(&terminal, "an answer", |line| line.contains("  broke 'banana', held by "));
    let [apple, banana, cherry] = holders;
    let lost = banana.finish().expect(79);
    assert!(
        lost.line().contains("it was broken with `redlock break` by ") && lost.line().contains("stuck"),
        "{lost:?}"
    );
    let logged = fs::read_to_string(&log).expect("a log");
    assert!(logged.contains("\"lock_broken\"") && logged.contains("banana"), "{logged}");
    [apple, cherry].into_iter().for_each(|holder| drop(holder.let_go().expect(0)));
}

/// Whatever ends it. Who kills it with SIGKILL is left with the screen, as of less(1).
#[test]
fn the_terminal_is_left_as_it_was() {
    enum End {
        Keys(&'static str),
        Signal(Signal),
    }
    use End::Keys;
    for (end, expected) in [
        (Keys("q"), 0),
        (Keys("C-c"), 130),
        (End::Signal(Signal::SIGTERM), 143),
        (End::Signal(Signal::SIGHUP), 129),
    ] {
        let store = Store::local();
        let [before, code, go_on, after] =
            ["before", "code", "go-on", "after"].map(|name| store.folder.path(name));
        // A shell without job control, which repairs no terminal.
        let script = format!(
            "trap : INT; stty -g >{before:?}; {PROGRAM} status --watch; echo $? >{code:?}
            until [ -e {go_on:?} ]; do sleep 0.05; done; stty -g >{after:?}.new; mv {after:?}.new {after:?}; sleep 60"
        );
        let file = store.folder.path("script");
        fs::write(&file, script).expect("a script");
        let terminal = Tmux::start(&store, [80, 24], "tmux", &format!("sh {file:?}"));
        await_line(&terminal, "the screen", |line| line == "no locks are in use");
        let shell = terminal.says("#{pane_pid}").parse().expect("a pid");
        let [pid] = children(shell)[..] else { panic!("its children: {:?}", children(shell)) };
        let send = |pid, signal| nix::sys::signal::kill(Pid::from_raw(pid), signal).expect("a signal");
        match end {
            Keys(keys) => terminal.press(&[keys]),
            End::Signal(signal) => send(pid, signal),
        }
        await_file(&code);
        eventually(SOON, "its end", || !is_alive(pid));
        fs::write(&go_on, "").expect("a file");
        await_file(&after);
        let read = |path| fs::read_to_string(path).expect("a file");
        assert_eq!(read(&code).trim(), expected.to_string());
        assert_eq!(read(&after), read(&before), "{expected}");
        assert_eq!(terminal.says("#{alternate_on}#{cursor_flag}"), "01", "{expected}");
    }
}

/// A shell with job control, in which the lock X is watched; and the process that the shell waits for.
fn watch_from_shell(store: &Store) -> (Tmux, i32) {
    // The shell says the name of the program, whose path may be too long for a line.
    let folder = Path::new(PROGRAM).parent().expect("a folder");
    let terminal = Tmux::start(store, [80, 24], "tmux", &format!("PATH={folder:?}:$PATH exec bash --norc"));
    terminal.press(&["redlock status --watch", "Enter"]);
    await_line(&terminal, "the lock", |line| line.starts_with("X "));
    let shell = terminal.says("#{pane_pid}").parse().expect("a pid");
    let [watch] = children(shell)[..] else { panic!("{:?}", children(shell)) };
    (terminal, watch)
}

/// Ctrl-Z gives the terminal to the shell, and `fg` takes it back.
#[test]
fn it_can_be_suspended() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let (terminal, watch) = watch_from_shell(&store);
    terminal.press(&["C-z"]);
    await_line(&terminal, "the shell", |line| line.starts_with("[1]+  Stopped"));
    assert_eq!(terminal.says("#{alternate_on}#{cursor_flag}"), "01");
    let state = fs::read_to_string(format!("/proc/{watch}/status")).expect("its state");
    assert!(state.contains("State:\tT"), "{state}");
    // It does not stop in the middle of a transaction, which all others would wait for.
    store.redlock(&["run", "-k", "Y", "--", "true"]).run().expect(0);
    terminal.press(&["clear; fg", "Enter"]);
    await_line(&terminal, "the lock again", |line| line.starts_with("X "));
    terminal.press(&["C-z"]);
    await_line(&terminal, "the shell again", |line| line.starts_with("[1]+  Stopped"));
    // In the background it stops again.
    terminal.press(&["clear; bg", "Enter"]);
    await_line(&terminal, "the background", |line| line.starts_with("[1]+ ") && line.ends_with("--watch &"));
    // bash says it before its next prompt.
    eventually(SOON, "the next stop", || {
        terminal.press(&["Enter"]);
        terminal.lines(&[]).iter().any(|line| line.starts_with("[1]+  Stopped"))
    });
    terminal.press(&["kill %1", "Enter"]);
    eventually(SOON, "the end", || !is_alive(watch));
    assert_eq!(terminal.says("#{alternate_on}#{cursor_flag}"), "01");
    holder.let_go().expect(0);
}

/// A shell ends a stopped job by SIGTERM and then SIGCONT.
#[test]
fn it_can_be_ended_while_it_is_suspended() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let (terminal, watch) = watch_from_shell(&store);
    terminal.press(&["C-z"]);
    await_line(&terminal, "the shell", |line| line.starts_with("[1]+  Stopped"));
    terminal.press(&["kill %1", "Enter"]);
    eventually(SOON, "the end", || !is_alive(watch));
    assert_eq!(terminal.says("#{alternate_on}#{cursor_flag}"), "01");
    holder.let_go().expect(0);
}

/// Whoever stops it: the shell gets the terminal where that can be, and `fg` brings a whole screen that reads keys.
#[test]
fn it_can_be_stopped_from_elsewhere() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let (terminal, watch) = watch_from_shell(&store);
    for (signal, left, sort) in
        [(Signal::SIGTSTP, "0", "sort: held longest"), (Signal::SIGSTOP, "1", "sort: least left")]
    {
        nix::sys::signal::kill(Pid::from_raw(watch), signal).expect("a signal");
        await_line(&terminal, "the shell", |line| line.starts_with("[1]+  Stopped"));
        assert_eq!(terminal.says("#{alternate_on}"), left);
        terminal.press(&["clear; fg", "Enter"]);
        await_line(&terminal, "the title", |line| line.starts_with("redlock: 1 lock, 0 waiting"));
        await_line(&terminal, "the lock again", |line| line.starts_with("X "));
        terminal.press(&["s"]);
        await_line(&terminal, "a key", |line| line.contains(sort));
    }
    terminal.press(&["q"]);
    eventually(SOON, "the end", || !is_alive(watch));
    assert_eq!(terminal.says("#{alternate_on}#{cursor_flag}"), "01");
    holder.let_go().expect(0);
}

/// Also where the end of the terminal is no signal.
#[test]
fn it_ends_with_its_terminal() {
    let store = Store::local();
    let line = format!("trap '' HUP; exec {PROGRAM} status --watch");
    let terminal = Tmux::start(&store, [80, 24], "tmux", &line);
    await_line(&terminal, "the screen", |line| line == "no locks are in use");
    let watch = terminal.says("#{pane_pid}").parse().expect("a pid");
    drop(terminal);
    eventually(SOON, "its end", || !is_alive(watch));
}

/// Who leaves while a lock is being broken hears what became of it, or that nobody knows.
#[test]
fn leaving_waits_for_an_order() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("Redis");
    let holder = store.hold("X", &["--ttl", "1h"]);
    let line = format!("{PROGRAM} status --watch --connect-timeout 5m; echo status $?; sleep 60");
    for (name, waits, said) in [
        ("goes", false, "redlock: whether 'X' was broken is unknown"),
        ("waits", true, "redlock: broke 'X', held by "),
    ] {
        let terminal = Tmux::start(&store, LARGE, name, &line);
        await_line(&terminal, "the lock", |line| line.starts_with("X "));
        redis.pause();
        terminal.press(&["b"]);
        await_line(&terminal, "a question", |line| line.ends_with("[y/N]"));
        terminal.press(&["y", "Enter"]);
        await_line(&terminal, "the order", |line| line == "breaking 'X'");
        terminal.press(&["q"]);
        await_line(&terminal, "a last word", |line| line.starts_with("waiting to hear "));
        if waits {
            redis.resume();
        } else {
            terminal.press(&["q"]);
        }
        await_line(&terminal, "what became of it", |line| line.starts_with(said));
        await_line(&terminal, "the end", |line| line == "status 0");
        redis.resume();
    }
    assert_eq!(store.status("X")["holders"][0]["broken"], true);
    drop(holder);
}

/// A store that stops answering: the screen says so, and the keys work.
#[test]
fn a_store_that_does_not_answer() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("Redis");
    let holder = store.hold("X", &["--ttl", "5m"]);
    let terminal = watch(&store, [80, 24], "--connect-timeout 1s");
    await_line(&terminal, "the lock", |line| line.starts_with("X "));
    redis.pause();
    await_line(&terminal, "the trouble", |line| line.contains("cannot reach "));
    terminal.press(&["Enter"]);
    await_line(&terminal, "the lock in full", |line| line.starts_with("  holder "));
    redis.resume();
    eventually(SOON, "an answer", || !terminal.lines(&[]).iter().any(|line| line.contains("cannot reach")));
    holder.let_go().expect(0);
    await_line(&terminal, "the end", |line| line.contains("'X' is not held by "));
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let store = Store::local();
    let piped = store.redlock(&["status", "--watch"]).run().expect(64);
    let why =
        "redlock: --watch needs a terminal, and standard output is not one; for programs there is --json";
    assert_eq!((piped.line(), &*piped.stdout), (why, ""));
    store.redlock(&["status", "--watch", "--json"]).run().expect(64);
    let line = format!(
        "{PROGRAM} status --watch -S redis://127.0.0.1:1; echo $?; TERM=dumb {PROGRAM} status --watch; echo $?
        setsid -w {PROGRAM} status --watch; echo $?; sleep 60"
    );
    let terminal = Tmux::start(&store, LARGE, "refused", &line);
    eventually(SOON, "all ends", || terminal.lines(&[]).len() == 7);
    let lines = terminal.lines(&[]);
    assert!(lines[0].starts_with("redlock: error: cannot reach "), "{lines:#?}");
    assert!(lines[1].contains("hint: 'redlock doctor'") && lines[2] == "69", "{lines:#?}");
    assert!(lines[3].contains("TERM does not name one") && lines[4] == "64", "{lines:#?}");
    assert!(lines[5].contains("a terminal of another session") && lines[6] == "64", "{lines:#?}");
}

/// What leaves the screen would go to where an earlier program left the cursor.
#[test]
fn a_terminal_that_was_not_taken_is_not_given_back() {
    let mut command = Command::new(PROGRAM);
    command
        .args(["status", "--watch", "-S", "redis://127.0.0.1:1"])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    let mut pty = Pty::start(command);
    assert_eq!(pty.finish(), 69);
    pty.expect("cannot reach ");
    assert!(!pty.screen().contains('\u{1b}'), "{:?}", pty.screen());
}
