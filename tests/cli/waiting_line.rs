//! What is said while a lock is waited for: one line of a terminal, lines of a log.

use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Redlock, Store, Tmux, eventually, is_within};

/// As it is on a terminal: emoji, also of several characters, wide ones, accents, right to left.
const LABELS: [&str; 4] = [
    "🎉🎉 👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} deploy 🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀",
    "日本語のとても長いラベルは端末の幅よりも長いので途中で切らなければならない日本語のとても長いラベル",
    "פריסה של השירות לסביבת הייצור, שלב שני מתוך שלושה, נא לא לעצור את התהליך הזה",
    "e\u{301}e\u{301}e\u{301} Ünïcödé ラベル и очень длинное название, которое не помещается в строку",
];

/// Whatever the holder calls itself, through 30 s of new lines; place and time are never cut. In the end one line is
/// left.
#[test]
fn one_line_of_a_terminal() {
    let store = Store::local();
    let program = env!("CARGO_BIN_EXE_redlock");
    let holders: Vec<_> = (0..)
        .zip(LABELS)
        .map(|(number, label)| store.hold(&format!("key{number}"), &["--label", label]))
        .collect();
    let mut terminals = Vec::new();
    for (number, size) in
        (0..LABELS.len()).flat_map(|number| [[80, 24], [40, 10], [200, 50]].map(|size| (number, size)))
    {
        let key = format!("key{number}");
        let wait = format!("{program} run -k {key} --wait 5m -s -- sh -c 'echo started; sleep 60'");
        terminals.push((number, size, Tmux::start(&store, size, &format!("{key}.{}", size[0]), &wait)));
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        for (number, size, terminal) in &terminals {
            let lines = terminal.lines(&[]);
            assert!(lines.len() <= 1, "{number} {size:?}: {lines:#?}");
        }
        thread::sleep(Duration::from_secs(1));
    }
    for (number, size, terminal) in &terminals {
        let lines = terminal.lines(&[]);
        let whole = lines.first().is_some_and(|line| {
            let (place, time) = (line.contains("next in line, ") || line.contains(" ahead, "), "s of 5m: '");
            line.starts_with("redlock: ") && place && line.contains(time)
        });
        assert!(whole, "{number} {size:?}: {lines:#?}");
    }
    holders.into_iter().for_each(|holder| drop(holder.let_go()));
    for (number, size, terminal) in &terminals {
        eventually(Duration::from_secs(30), "the command starts", || {
            terminal.lines(&[]).iter().any(|line| line == "started")
        });
        let lines = terminal.lines(&["-e"]);
        let acquired = format!("\x1b[2mredlock: acquired 'key{number}' after ");
        assert!(lines.len() == 2 && lines[0].starts_with(&acquired), "{size:?}: {lines:#?}");
    }
}

/// Nothing is left of a wait in vain but the reason, and without colours nothing is dim.
#[test]
fn the_end_of_a_wait() {
    let store = Store::local();
    let program = env!("CARGO_BIN_EXE_redlock");
    let holder = store.hold("X", &[]);
    let line = format!("{program} run -k X --wait 2s -- true; echo ended; sleep 60");
    let gave_up = Tmux::start(&store, [80, 24], "gave-up", &line);
    let line = format!("NO_COLOR=1 {program} run -k X --wait -- echo started; sleep 60");
    let plain = Tmux::start(&store, [80, 24], "plain", &line);
    eventually(Duration::from_secs(20), "it gives up", || {
        gave_up.lines(&[]).iter().any(|line| line == "ended")
    });
    assert!(gave_up.lines(&[])[0].starts_with("redlock: gave up after 2"), "{:#?}", gave_up.lines(&[]));
    holder.let_go().expect(0);
    eventually(Duration::from_secs(60), "it starts", || {
        plain.lines(&[]).iter().any(|line| line == "started")
    });
    assert_eq!(plain.lines(&[]).len(), 2, "{:#?}", plain.lines(&[]));
    assert!(
        plain.lines(&["-e"])[0].starts_with("redlock: acquired 'X' after "),
        "{:#?}",
        plain.lines(&["-e"])
    );
}

/// In a log there is a line for each change, and none is added while nothing changes.
#[test]
fn lines_of_a_log() {
    let store = Store::local();
    let first = store.hold("X", &[]);
    let second = store.redlock(&["run", "-k", "X", "--wait", "--", "cat"]).open_stdin().spawn();
    store.await_waiters("X", 1);
    let third = store.redlock(&["run", "-k", "X", "--wait", "5m", "--", "true"]).spawn();
    store.await_waiters("X", 2);
    thread::sleep(Duration::from_secs(3));
    let begin = Instant::now();
    first.let_go().expect(0);
    // Longer than a waiter takes to see it by itself.
    thread::sleep(Duration::from_secs(8));
    let in_time = is_within(Duration::from_secs(20), begin);
    second.let_go().expect(0);
    let said = third.finish().expect(0).stderr;
    let lines: Vec<&str> = said.lines().collect();
    assert!(!in_time || lines.len() == 2, "{lines:#?}");
    assert!(
        lines[0].ends_with("; 1 ahead in line") && lines[1].contains("; next in line; waiting for "),
        "{lines:#?}"
    );
    assert!(lines[1].ends_with("s of 5m"), "{lines:#?}");
}

#[test]
fn several_readers() {
    let store = Store::local();
    let readers: Vec<_> =
        (0..3).map(|_| store.redlock(&["acquire", "-k", "X", "--shared"]).run().expect(0)).collect();
    let refused = store.redlock(&["run", "X", "true"]).run().expect(75);
    assert!(refused.line().contains(" and 2 more for "), "{refused:?}");
    assert_eq!(readers.len(), 3);
    let redis = Store::redis();
    (0..3).for_each(|_| drop(redis.redlock(&["acquire", "-k", "X", "--shared"]).run().expect(0)));
    let refused = redis.redlock(&["run", "X", "true"]).run().expect(75);
    assert!(refused.line().contains(" and 2 more for "), "{refused:?}");
}

/// To wait for it would be in vain.
#[test]
fn a_lock_that_never_expires() {
    let store = Store::redis();
    store.redis.as_ref().expect("a Redis").cli(&["set", "a key", "token"]);
    let refused = store.redlock(&["run", "a key", "true"]).run().expect(75);
    assert!(refused.line().ends_with("redlock break -k 'a key'"), "{refused:?}");
}

#[test]
fn a_timeout_says_that_it_stopped_the_command() {
    let store = Store::local();
    let run = store.redlock(&["run", "X", "--timeout", "200ms", "sleep", "60"]).run().expect(124);
    assert_eq!(run.line(), "redlock: stopping 'sleep': it ran for longer than --timeout 200ms");
}

/// One wording for a token that does not hold the lock.
#[test]
fn a_token_that_does_not_hold_the_lock() {
    let store = Store::local();
    let token = "68413f2f-8e0b-49a8-8a46-e268c50c52f7";
    let said = |args: &[&str]| {
        let run: Redlock = store.redlock(&[args, &["X", "--token", token]].concat());
        run.run().expect(1).line().to_owned()
    };
    for subcommand in ["check", "renew", "release"] {
        let line = said(&[subcommand]);
        assert!(line.starts_with("redlock: this token does not hold 'X'"), "{line}");
    }
    store.redlock(&["acquire", "X"]).run().expect(0);
    for args in [&["check"][..], &["renew"], &["release"], &["break", "--yes"]] {
        let line = said(args);
        assert!(line.starts_with("redlock: this token does not hold 'X'"), "{line}");
    }
}

/// Whoever waits wants to know for how long.
#[test]
fn the_time_left_is_never_cut() {
    let store = Store::redis();
    let holder = store.hold("X", &["--ttl", "1h", "--label", &"a long label ".repeat(4)]);
    let line = format!("{} run -k X --wait 5m -- true; sleep 60", env!("CARGO_BIN_EXE_redlock"));
    let terminal = Tmux::start(&store, [80, 24], "time-left", &line);
    let is_shown =
        || terminal.lines(&[]).iter().any(|line| line.ends_with("m left") || line.ends_with("s left"));
    eventually(Duration::from_secs(30), "the time left", is_shown);
    holder.let_go().expect(0);
}
