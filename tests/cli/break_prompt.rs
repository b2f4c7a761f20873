//! `redlock break` asks.

use std::process::Command;

use crate::harness::{Pty, Store};

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
