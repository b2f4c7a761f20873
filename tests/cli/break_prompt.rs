//! `redlock break` asks.

use std::process::Command;
use std::time::Duration;

use crate::harness::{Pty, Store, eventually};

/// At a terminal, and with a stderr that takes nothing: nobody sees the question.
#[test]
fn a_question_that_cannot_be_asked() {
    let store = Store::local();
    store.redlock(&["acquire", "-k", "X"]).run().expect(0);
    let mut command = Command::new("bash");
    let script = r#""$0" break -k X 2>/dev/full; echo "status $?"; "$0" status X --json"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_redlock")]).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("status 64");
    pty.finish();
    assert!(store.status("X")["holders"][0].is_object());
}

/// The lock passes on while the question is open: nobody was asked about the next holder.
#[test]
fn who_came_meanwhile_is_not_broken() {
    let store = Store::local();
    let first = store.hold("X", &[]);
    let next = store.redlock(&["run", "-k", "X", "--wait", "--", "cat"]).open_stdin().spawn();
    store.await_waiters("X", 1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.args(["break", "-k", "X"]).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("Break it? [y/N]");
    first.let_go().expect(0);
    let holds = || store.status("X")["holders"][0]["pid"].as_i64() == Some(next.pid().into());
    eventually(Duration::from_secs(20), "the next holder", holds);
    pty.send("y\n");
    pty.expect("did not break 'X': meanwhile it is held by ");
    assert_eq!(pty.finish(), 1);
    next.let_go().expect(0);
}
