//! `redlock break`: what it asks, and whom it tells before it frees a lock.

use std::process::Command;
use std::time::Duration;

use crate::harness::{Pty, Redlock, Store, eventually, is_alive, namespaces, pid_in};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// The question, at a terminal.
fn ask(store: &Store) -> Pty {
    let mut command = Command::new(PROGRAM);
    command.args(["break", "-k", "X"]).env("REDLOCK_SERVER", &store.url);
    Pty::start(command)
}

/// At a terminal, and with a stderr that takes nothing: nobody sees the question.
#[test]
fn a_question_that_cannot_be_asked() {
    let store = Store::local();
    store.redlock(&["acquire", "-k", "X"]).run().expect(0);
    let mut command = Command::new("bash");
    let script = r#""$0" break -k X 2>/dev/full; echo "status $?"; "$0" status X --json"#;
    command.args(["-c", script, PROGRAM]).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("status 64");
    pty.finish();
    assert!(store.status("X")["holders"][0].is_object());
}

/// A key may have been written by another, into a file or a variable.
#[test]
fn a_question_is_harmless() {
    let store = Store::local();
    let key = "a\u{202e}b";
    store.redlock(&["acquire", "-k", key]).run().expect(0);
    let mut command = Command::new(PROGRAM);
    command.args(["break", "-k", key]).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("'a\u{fffd}b' is held by");
    pty.send("n\n");
    assert_eq!(pty.finish(), 1);
}

/// The lock passes on while the question is open: nobody was asked about the next holder.
#[test]
fn who_came_meanwhile_is_not_broken() {
    let store = Store::local();
    let first = store.hold("X", &[]);
    let next = store.redlock(&["run", "-k", "X", "--wait", "--", "cat"]).open_stdin().spawn();
    store.await_waiters("X", 1);
    let mut pty = ask(&store);
    pty.expect("Break it? [y/N]");
    first.let_go().expect(0);
    let holds = || store.status("X")["holders"][0]["pid"].as_i64() == Some(next.pid().into());
    eventually(Duration::from_secs(20), "the next holder", holds);
    pty.send("y\n");
    pty.expect("did not break 'X': it is now held by ");
    assert_eq!(pty.finish(), 1);
    next.let_go().expect(0);
}

/// A second time frees the lock at once: nobody who was asked before the first time meant that.
#[test]
fn two_who_were_asked_break_it_once() {
    let store = Store::local();
    let holder = store.hold("X", &["--ttl", "1h"]);
    let mut pty = ask(&store);
    pty.expect("Break it? [y/N]");
    store.redlock(&["break", "-k", "X", "--yes", "--reason", "stuck"]).run().expect(0);
    pty.send("y\n");
    pty.expect("did not break 'X': it was already broken by ");
    assert_eq!(pty.finish(), 1);
    assert_eq!(store.status("X")["holders"][0]["broken"], true);
    let mut again = ask(&store);
    again.expect("breaking it again frees it at once, even if its job still runs. Break it? [y/N]");
    again.send("y\n");
    again.expect("freed 'X', which was held by ");
    assert_eq!(again.finish(), 0);
    drop(holder);
}

/// Nobody sees which of several holders has the token; that one of them is broken already is said all the same.
#[test]
fn by_a_token_one_of_several_loses_it() {
    let store = Store::local();
    let acquire = ["acquire", "-k", "X", "--shared", "--ttl", "1h"];
    let [_, token] = [(); 2].map(|()| store.redlock(&acquire).run().expect(0).stdout);
    let by_token = ["break", "-k", "X", "--token", token.trim()];
    store.redlock(&[&by_token[..], &["--yes"]].concat()).run().expect(0);
    let mut command = Command::new(PROGRAM);
    command.args(by_token).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("'X' is held by 2: only the one with this token loses it. It is broken already: ");
    pty.send("n\n");
    assert_eq!(pty.finish(), 1);
}

/// Another pid namespace of a host with the same name, as of containers of one pod: there is no process with that pid, and
/// the one that acquired the lock lives.
#[test]
fn who_cannot_see_the_process_does_not_take_it_for_dead() {
    if !namespaces() {
        return;
    }
    let store = Store::redis();
    store.redlock(&["acquire", "-k", "X", "--ttl", "1h"]).run().expect(0);
    let args = ["--pid", "--fork", "--mount-proc", PROGRAM, "break", "-k", "X", "--yes"];
    let elsewhere = store.reached_by(Redlock::under("unshare", &args)).run().expect(0);
    assert!(elsewhere.stderr.contains("broke 'X'"), "{elsewhere:?}");
    assert!(store.status("X")["holders"][0].is_object());
}

/// A script that has ended and a job share the lock: the job is told, and is dead before another one starts.
#[test]
fn who_shares_a_lock_with_one_that_has_ended_is_told() {
    for store in [Store::local(), Store::redis()] {
        let ttl = store.ttl(3000);
        let script = format!(r#""$0" acquire -k X --shared --ttl {ttl} >/dev/null; exit"#);
        store.reached_by(Redlock::under("sh", &["-c", &script, PROGRAM])).run().expect(0);
        let (pid, folder) = (store.folder.path("pid"), store.folder.path("").display().to_string());
        let job = "cd \"$0\"; trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
        let args = ["run", "-k", "X", "--shared", "--ttl", &ttl, "--", "sh", "-c", job, &folder];
        let mut holder = store.redlock(&args).spawn();
        holder.await_file(&pid);
        let job = pid_in(&pid);
        store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
        let next = "cd \"$0\"; read -r pid < pid; ! [ /proc/$pid/cwd -ef . ]";
        store.redlock(&["run", "-k", "X", "--wait", "--", "sh", "-c", next, &folder]).run().expect(0);
        assert!(!is_alive(job));
        holder.finish().expect(79);
    }
}
