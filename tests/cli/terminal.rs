//! At a terminal.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Pty, Store, Tmux, await_file, eventually, throughout};

/// A shell at a terminal of its own, in which `$R` is `redlock run -k X --`.
fn bash(store: &Store, args: &[&str]) -> Pty {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile"]).args(args).env("PS1", "ready> ").env("TERM", "xterm");
    command
        .env("R", format!("{} run -k X --", env!("CARGO_BIN_EXE_redlock")))
        .env("REDLOCK_SERVER", &store.url);
    Pty::start(command)
}

#[test]
fn a_question_and_its_answer() {
    let store = Store::local();
    let mut pty = bash(&store, &["-c", r#"$R bash -c 'read -p "name? " n; echo "hi, $n"'"#]);
    pty.expect("name? ");
    pty.send("Ada\n");
    pty.expect("hi, Ada");
    assert_eq!(pty.finish(), 0);
}

/// What to do is a line of its own, and no word is broken.
#[test]
fn a_failure_and_what_to_do() {
    let store = Store::local();
    let program = env!("CARGO_BIN_EXE_redlock");
    let line =
        format!("{program} run -k x; {program} run -k x --ttl soon true 2>&1 | cat; echo end; sleep 60");
    let screen = Tmux::start(&store, [50, 24], "tmux", &line);
    eventually(Duration::from_secs(20), "the end", || screen.lines(&[]).iter().any(|line| line == "end"));
    let lines = screen.lines(&[]);
    let expected = [
        "redlock: error: the command is missing",
        "hint: for example: redlock run -k nightly --",
        "./backup.sh",
        // For a log it is one line, which the terminal breaks.
        "redlock: invalid value 'soon' for '--ttl <DURATION",
    ];
    assert_eq!(lines[..4], expected, "{lines:#?}");
}

/// So is the answer about a lock that another holds.
#[test]
fn a_busy_lock_in_lines_that_end_between_words() {
    let store = Store::local();
    let holder = store.hold("x", &["--label", "nightly backup of the database"]);
    let program = env!("CARGO_BIN_EXE_redlock");
    let line = format!("{program} run x true; echo end; sleep 60");
    let screen = Tmux::start(&store, [40, 24], "tmux", &line);
    eventually(Duration::from_secs(20), "the end", || screen.lines(&[]).iter().any(|line| line == "end"));
    let lines = screen.lines(&[]);
    let said = lines[..lines.len() - 1].join(" ");
    assert!(said.ends_with("left on its lease. --wait to join the queue"), "{lines:#?}");
    holder.let_go().expect(0);
}

#[test]
fn a_lock_by_hand_says_what_comes_next() {
    let store = Store::local();
    let line = r#"${R% run*} acquire by-hand --ttl 7m >/dev/null; ${R% run*} acquire -q other >/dev/null"#;
    let mut pty = bash(&store, &["-c", line]);
    pty.expect("'by-hand' is yours for 7m; next: redlock renew, or redlock release");
    assert_eq!(pty.finish(), 0);
    assert!(!pty.screen().contains("'other'"), "{}", pty.screen());
}

#[test]
fn a_pager() {
    let store = Store::local();
    let mut pty = bash(&store, &["-c", "$R less /etc/services; echo after"]);
    pty.expect("tcpmux");
    pty.send("q");
    pty.expect("after");
    assert_eq!(pty.finish(), 0);
}

/// Ctrl-C ends the command, and bash sees that death and stops the script.
#[test]
fn ctrl_c_stops_a_script() {
    let store = Store::local();
    let mut pty = bash(&store, &["-c", "$R sh -c 'echo started; exec sleep 100'; echo NOT REACHED"]);
    pty.expect("started");
    pty.send("\x03");
    assert_eq!(pty.finish(), -2);
    assert!(!pty.screen().contains("NOT REACHED"), "{}", pty.screen());
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// Once, and redlock keeps the lock until the command has cleaned up.
#[test]
fn ctrl_c_comes_once() {
    let store = Store::local();
    let script = r#"n=0; trap 'n=$((n+1)); echo "int $n"' INT; trap 'echo "in all $n"; exit 7' TERM; echo started; while :; do sleep 0.05; done"#;
    let mut pty = bash(
        &store,
        &["-c", &format!("trap : INT; $R bash -c '{}'; echo \"status $?\"", script.replace('\'', r"'\''"))],
    );
    pty.expect("started");
    pty.send("\x03");
    pty.expect("int 1");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    pty.send("\x03");
    pty.expect("int 2");
    let redlock = store.status("X")["holders"][0]["pid"].as_i64().expect("its pid");
    kill(Pid::from_raw(redlock as i32), Signal::SIGTERM).expect("a signal to redlock");
    pty.expect("in all 2");
    pty.expect("status 7");
    pty.finish();
}

#[test]
fn ctrl_z_and_fg() {
    let store = Store::local();
    let mut pty = bash(&store, &["-i"]);
    pty.expect("ready> ");
    pty.send("$R sh -c 'echo sta\"\"rted; read line; echo \"got $line\"'\n");
    pty.expect("started");
    pty.send("\x1a");
    pty.expect("Stopped");
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    let named = pty.screen().matches("read line").count();
    pty.send("fg\n");
    // The shell names the job that it puts into the foreground.
    eventually(Duration::from_secs(10), "it goes on", || pty.screen().matches("read line").count() > named);
    pty.send("more\n");
    pty.expect("got more");
    pty.send("exit 0\n");
    assert_eq!(pty.finish(), 0);
}

/// One live line while waiting; Ctrl-C ends it at once and leaves nothing in the queue.
#[test]
fn waiting() {
    let store = Store::local();
    store.redlock(&["acquire", "-k", "X", "--label", "a \x1b[2Jb \u{202e}c"]).run().expect(0);
    let wait = format!("{} run -k X --wait -- echo started; echo NOT REACHED", env!("CARGO_BIN_EXE_redlock"));
    let mut pty = bash(&store, &["-c", &wait]);
    pty.expect("next in line");
    pty.expect("next in line, 1s: 'X' is held by");
    assert_eq!(store.waiters("X"), 1);
    pty.send("\x03");
    assert_eq!(pty.finish(), -2);
    assert_eq!(store.waiters("X"), 0);
    let screen = pty.screen();
    assert!(!screen.contains("NOT REACHED") && !screen.contains("started"), "{screen:?}");
    assert!(!screen.contains("\x1b[2Jb") && !screen.contains('\u{202e}'), "{screen:?}");
}

/// A waiter in the background leaves the terminal to the shell: it writes one line, and does not stop where the terminal stops
/// those who write from there.
#[test]
fn a_waiter_in_the_background() {
    let store = Store::local();
    let (holder, started) = (store.hold("X", &[]), store.folder.path("started"));
    let mut pty = bash(&store, &["-i"]);
    pty.expect("ready> ");
    pty.send(&format!(
        "stty tostop; {} run -k X --wait -- touch {started:?} &\n",
        env!("CARGO_BIN_EXE_redlock")
    ));
    store.await_waiters("X", 1);
    pty.expect("is held by");
    let lines = || pty.screen().matches("is held by").count();
    // In the foreground the line changes each second.
    throughout(Duration::from_secs(3), || {
        assert!(lines() == 1 && !pty.screen().contains("\x1b[K"), "{:?}", pty.screen());
    });
    holder.let_go().expect(0);
    await_file(&started);
    pty.send("exit 0\n");
    pty.finish();
}
