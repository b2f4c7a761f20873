//! `redlock history`: what the store keeps of the last runs.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Redlock, Store, eventually};

/// With a history, which some stores keep on request only.
fn run(store: &Store, args: &[&str]) -> Redlock {
    store.redlock(&[&["run"], args].concat()).env("REDLOCK_HISTORY", "20")
}

fn history(store: &Store) -> Value {
    let shown = store.redlock(&["history", "--json", "X"]).run().expect(0).stdout;
    serde_json::from_str::<Value>(&shown).expect("JSON")[0].clone()
}

/// The history once it has so many runs: nobody waits for what is added.
fn with_runs(store: &Store, count: usize) -> Value {
    let mut found = Value::Null;
    eventually(Duration::from_secs(20), &format!("{count} runs"), || {
        found = history(store);
        found["runs"].as_array().is_some_and(|runs| runs.len() == count)
    });
    found
}

pub fn each_run_says_how_it_ended(store: &Store) {
    assert_eq!(history(store)["runs"], Value::Array(Vec::new()));
    for (job, status) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)] {
        run(store, &["--label", "nightly", "X", "--", "sh", "-c", job]).run().expect(status);
    }
    run(store, &["--timeout", "100ms", "X", "--", "sleep", "60"]).run().expect(124);
    let runs = with_runs(store, 4)["runs"].clone();
    let outcomes: Vec<&str> = (0..4).filter_map(|place| runs[place]["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["timed_out", "killed", "failure", "success"]);
    assert_eq!((&runs[2]["exit_status"], &runs[1]["signal"]), (&3.into(), &9.into()));
    assert_eq!(runs[3]["label"], "nightly");
    let fences: Vec<u64> = (0..4).filter_map(|place| runs[place]["fence"].as_u64()).collect();
    assert!(fences.len() == 4 && fences.is_sorted_by(|later, earlier| later > earlier), "{fences:?}");
    store.redlock(&["check", "--ran-within", "1h", "X"]).run().expect(0);
    store.redlock(&["check", "--ran-within", "1ms", "X"]).run().expect(1);
    let never = store.redlock(&["check", "--ran-within", "1h", "another"]).run().expect(1);
    assert!(never.line().contains("no runs of 'another' are recorded in "), "{never:?}");
}

pub fn who_did_not_get_it_is_counted(store: &Store) {
    let holder = store.hold("X", &["--history", "20"]);
    for _ in 0..3 {
        run(store, &["X", "--", "true"]).run().expect(75);
    }
    eventually(Duration::from_secs(20), "three skipped", || history(store)["skipped"] == 3);
    holder.let_go().expect(0);
    let found = with_runs(store, 1);
    assert_eq!((&found["skipped"], &found["runs"][0]["skipped"]), (&0.into(), &3.into()));
}

pub fn a_broken_lock_says_who_broke_it(store: &Store) {
    let ttl = store.ttl(2000);
    let holder = store.hold("X", &["--history", "20", "--ttl", &ttl]);
    store.redlock(&["break", "--yes", "--reason", "stuck since 02:00", "X"]).run().expect(0);
    holder.finish().expect(79);
    let run = with_runs(store, 1)["runs"][0].clone();
    assert_eq!(run["outcome"], "lost");
    assert!(run["broken_by"].as_str().is_some_and(|by| by.ends_with(": stuck since 02:00")), "{run}");
    let refused = store.redlock(&["check", "--ran-within", "1h", "X"]).run().expect(1);
    assert!(refused.line().contains(": broken by ") && refused.line().contains("stuck since"), "{refused:?}");
}

/// It had the lock all the same.
pub fn a_command_that_cannot_start_is_a_run(store: &Store) {
    run(store, &["X", "--", "/nonexistent"]).run().expect(127);
    let run = with_runs(store, 1)["runs"][0].clone();
    assert_eq!((&run["outcome"], &run["exit_status"]), (&"not_started".into(), &127.into()));
}

pub fn the_last_ones_are_kept(store: &Store) {
    for number in 1..=5 {
        let label = number.to_string();
        store.redlock(&["run", "--history", "3", "--label", &label, "X", "--", "true"]).run().expect(0);
        let newest = || history(store)["runs"][0]["label"] == label.as_str();
        eventually(Duration::from_secs(20), "the run", newest);
    }
    let runs = with_runs(store, 3)["runs"].clone();
    let labels: Vec<&str> = (0..3).filter_map(|place| runs[place]["label"].as_str()).collect();
    assert_eq!(labels, ["5", "4", "3"]);
    store.redlock(&["run", "--history", "0", "X", "--", "true"]).run().expect(0);
    store.redlock(&["run", "--history", "3", "--label", "6", "X", "--", "true"]).run().expect(0);
    eventually(Duration::from_secs(20), "the run", || history(store)["runs"][0]["label"] == "6");
    assert_eq!(history(store)["runs"][1]["label"], "5");
}

/// Five stand in line, and each looks as soon as the lock is handed to it.
pub fn one_success_per_period(store: &Store) {
    let options = ["--once-per", "1h"];
    for round in ["1", "2", "3"] {
        let waiters: Vec<_> = (0..5).map(|_| store.wait_in_line(round, round, &options)).collect();
        let ends: Vec<_> = waiters.into_iter().map(|waiter| waiter.finish().expect(0)).collect();
        let refused = ends.iter().filter(|end| {
            end.stderr.contains(&format!("a run of '{round}' succeeded "))
                && end.stderr.contains("so --once-per 1h starts nothing")
        });
        assert_eq!(refused.count(), 4, "{ends:?}");
    }
    assert_eq!(store.order(), ["1", "2", "3"]);
    let again = ["run", "--once-per", "1ms", "1", "--", "true"];
    let ran = store.redlock(&again).run().expect(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(store.redlock(&["status", "--is-free", "1"]).run().code(), 0);
}

pub fn a_failure_leaves_the_period_to_the_next(store: &Store) {
    let run = |job: &str| {
        store.redlock(&["run", "--once-per", "1h", "--history", "0", "X", "--", "sh", "-c", job]).run()
    };
    run("exit 3").expect(3);
    run("kill -9 $$").expect(-9);
    run("exit 0").expect(0);
    assert_eq!(run("exit 3").expect(0).stdout, "");
}

pub fn a_success_without_the_lock_is_none(store: &Store) {
    let ttl = store.ttl(2000);
    let holder = store.hold("X", &["--once-per", "1h", "--on-lost", "continue", "--ttl", &ttl]);
    store.redlock(&["break", "X", "--yes", "--reason", "a test"]).run().expect(0);
    store.redlock(&["run", "--wait", "X", "--", "false"]).run().expect(1);
    holder.let_go().expect(79);
    store.redlock(&["check", "--ran-within", "1h", "X"]).run().expect(1);
}

/// A run with a higher number has begun, whatever became of it.
pub fn no_run_starts_behind_a_later_one(store: &Store) {
    let run = |number: &str, job: &str| {
        store.redlock(&["run", "--wait", "--sequence", number, "X", "--", "sh", "-c", job]).run()
    };
    run("7", "exit 3").expect(3);
    let refused = run("6", "echo ran").expect(75);
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("run 7 of 'X' began "), "{refused:?}");
    assert!(refused.stderr.contains(", so --sequence 6 starts nothing"), "{refused:?}");
    assert_eq!(store.redlock(&["status", "--is-free", "X"]).run().code(), 0);
    assert_eq!(run("7", "echo ran").expect(0).stdout, "ran\n");
    let holder = store.hold("X", &["--sequence", "9", "--ttl", &store.ttl(2000)]);
    holder.signal(Signal::SIGKILL);
    holder.finish().expect(-9);
    run("8", "echo ran").expect(75);
    run("10", "true").expect(0);
    let outcomes = || -> Vec<(Option<u64>, String)> {
        let runs = history(store)["runs"].clone();
        let one =
            |run: &Value| (run["sequence"].as_u64(), run["outcome"].as_str().unwrap_or_default().to_owned());
        runs.as_array().expect("runs").iter().map(one).collect()
    };
    let expected = [(10, "success"), (9, "started"), (7, "success"), (7, "failure")];
    let expected = expected.map(|(number, outcome)| (Some(number), outcome.to_owned()));
    eventually(Duration::from_secs(20), "the runs", || outcomes() == expected);
    // A run inside another one, which has no number, has begun as well.
    let nested = r#""$0" run --sequence 12 X true"#;
    store.redlock(&["run", "--wait", "X", "sh", "-c", nested, env!("CARGO_BIN_EXE_redlock")]).run().expect(0);
    run("11", "true").expect(75);
}
