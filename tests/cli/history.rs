//! Questions that have an answer: what ran, what is held, what `break` did.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{Finished, Pty, Redlock, Store, eventually};

fn run(store: &Store, key: &str, command: &str, keep: &str) -> Finished {
    store.redlock(&["run", "--history", keep, key, "--", command]).run()
}

/// A job that has failed for long is still one that succeeded once.
#[test]
fn the_last_success_is_kept() {
    let store = Store::local();
    run(&store, "X", "true", "2").expect(0);
    run(&store, "X", "true", "2").expect(0);
    for _ in 0..5 {
        run(&store, "X", "false", "2").expect(1);
    }
    store.redlock(&["check", "--ran-within", "1h", "X"]).run().expect(0);
    let shown = store.redlock(&["history", "X"]).run().expect(0).stdout;
    let results: Vec<&str> =
        shown.lines().skip(1).filter_map(|line| line.split("  ").map(str::trim).find(is_result)).collect();
    assert_eq!(results, ["exit 1", "exit 1", "ok"], "{shown}");
}

fn is_result(cell: &&str) -> bool {
    cell.starts_with("exit ") || *cell == "ok"
}

/// With a key and without one.
#[test]
fn histories_agree() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    run(&store, "X", "true", "20").expect(75);
    for args in [&["history"][..], &["history", "X"]] {
        let shown = store.redlock(args).run().expect(0).stdout;
        let line = shown.lines().find(|line| line.starts_with("X ")).unwrap_or_default();
        assert!(line.contains(" busy ") && !shown.contains("no runs"), "{args:?}: {shown}");
    }
    holder.let_go().expect(0);
}

#[test]
fn nothing_recorded_is_an_answer() {
    let store = Store::local();
    let ask = |store: &Store, args: &[&str]| store.redlock(args).run();
    assert_eq!(
        ask(&store, &["history"]).expect(0).stdout,
        format!("no runs are recorded in {}\n", store.url)
    );
    let one = ask(&store, &["history", "X"]).expect(0).stdout;
    assert_eq!(one, format!("no runs of 'X' are recorded in {}\n", store.url));
    assert_eq!(ask(&store, &["history", "--json"]).expect(0).stdout, "[]\n");
    let checked = ask(&store, &["check", "--ran-within", "1h", "X"]).expect(1);
    assert_eq!(checked.line(), format!("redlock: no runs of 'X' are recorded in {}", store.url));
    // Redis keeps none by itself: what to do is a part of the answer.
    let redis = Store::redis();
    let checked = ask(&redis, &["check", "--ran-within", "1h", "never-ran"]).expect(1);
    assert!(checked.line().contains("no runs of 'never-ran' are recorded"), "{checked:?}");
    assert!(checked.line().contains("--history 20"), "{checked:?}");
}

#[test]
fn no_locks_are_an_answer() {
    let store = Store::local();
    let shown = store.redlock(&["status"]).run().expect(0).stdout;
    assert_eq!(shown, format!("no locks are in use in {}\n", store.url));
    let shown = store.redlock(&["status", "deploy/*"]).run().expect(0).stdout;
    assert_eq!(shown, format!("no locks that match are in use in {}\n", store.url));
    assert_eq!(store.redlock(&["status", "--json"]).run().expect(0).stdout, "[]\n");
}

/// Its redlock is stopped: nobody renews the lease.
#[test]
fn a_holder_that_does_not_renew_is_late() {
    let store = Store::redis();
    let holder = store.hold("X", &["--ttl", "20s"]);
    let state = |store: &Store| store.redlock(&["status", "X*"]).run().expect(0).stdout;
    assert!(state(&store).contains("X    held "), "{}", state(&store));
    holder.signal(Signal::SIGSTOP);
    eventually(Duration::from_secs(20), "a late holder", || state(&store).contains("X    late "));
    holder.signal(Signal::SIGCONT);
    holder.let_go().expect(0);
}

#[test]
fn a_lock_that_was_not_broken() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.args(["break", "X"]).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("Break it? [y/N]");
    pty.send("n\n");
    pty.expect("did not break 'X'");
    assert_eq!(pty.finish(), 1);
    holder.let_go().expect(0);
    let free = Redlock::new(&["break", "X", "-y"]).server(&store.url).run().expect(1);
    assert!(free.line().contains("nobody holds 'X'"), "{free:?}");
}
