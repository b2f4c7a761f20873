//! What programs read is as docs/schema says.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Folder, Store, eventually, ttl};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/venv/bin/python");
const CHECK: &str = "import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
check = jsonschema.Draft202012Validator(schema)
for line in sys.stdin:
    for error in check.iter_errors(json.loads(line)):
        print(error.message, 'in', line)";

/// Each line of `json` against the schema of this name.
#[track_caller]
fn check(name: &str, json: &str) {
    let schema = format!("{}/docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new(PYTHON)
        .args(["-c", CHECK, &schema])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tests/run installs Python's jsonschema");
    assert!(json.lines().count() > 0, "{name}: nothing to check");
    python.stdin.take().expect("a pipe").write_all(json.as_bytes()).expect("its input");
    let checked = python.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{name}: {said}");
}

/// On one line.
fn compact(document: &str) -> String {
    serde_json::from_str::<serde_json::Value>(document).expect("JSON").to_string() + "\n"
}

#[test]
fn documents() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("Redis");
    let json = |args: &[&str]| compact(&store.redlock(args).run().expect(0).stdout);
    check("status", &json(&["status", "--json"]));
    let reader = store.hold("shared", &["--shared"]);
    let permit = store.hold("permits", &["-p", "3"]);
    let waiter = store.wait_in_line("shared", "1", &[]);
    store.await_waiters("shared", 1);
    redis.cli(&["set", "foreign", "somebody"]);
    check("acquire", &json(&["acquire", "--format", "json", "by-hand"]));
    check("acquire", &json(&["acquire", "--format", "json", "-k", "a", "-k", "b"]));
    store.redlock(&["break", "-y", "--reason", "for a test", "-k", "permits"]).run().expect(0);
    check("status", &json(&["status", "--json", "shared", "permits", "foreign", "by-hand", "free"]));
    check("doctor", &json(&["doctor", "--json"]));
    drop((reader, permit, waiter));
    for (job, status) in [("exit 3", 3), ("kill -9 $$", -9)] {
        store.redlock(&["run", "--history", "9", "nightly", "--", "sh", "-c", job]).run().expect(status);
    }
    let history = || json(&["history", "nightly", "--json"]);
    eventually(Duration::from_secs(20), "two runs", || history().matches("\"asked\"").count() == 2);
    check("history", &history());
}

#[test]
fn events() {
    let store = Store::redis();
    let folder = Folder::new();
    let log = folder.path("events.log");
    let logged = |args: &[&str], status| {
        let redlock = store.redlock(args).env("REDLOCK_LOG_FILE", &log);
        redlock.run().expect(status)
    };
    let holder = store
        .redlock(&["run", "-k", "X", "--ttl", &ttl(1500), "--", "cat"])
        .env("REDLOCK_LOG_FILE", &log)
        .open_stdin()
        .spawn();
    store.await_holder("X");
    logged(&["run", "X", "--", "true"], 75);
    logged(&["run", "--wait=100ms", "X", "--", "true"], 75);
    logged(&["break", "-y", "X"], 0);
    holder.finish().expect(79);
    logged(&["run", "--timeout", "100ms", "Y", "--", "sleep", "60"], 124);
    logged(&["run", "Y", "--", "sh", "-c", "sleep 3 & exit 0"], 0);
    let redis = store.redis.as_ref().expect("Redis");
    let unreleased = store.redlock(&["run", "-k", "W", "--", "cat"]).env("REDLOCK_LOG_FILE", &log);
    let unreleased = unreleased.open_stdin().spawn();
    store.await_holder("W");
    redis.pause();
    unreleased.let_go().expect(0);
    redis.resume();
    let misspelt = store.redlock(&["run", "V", "--", "true"]).env("REDLOCK_LOG_FILE", &log);
    misspelt.env("REDLOCK_LABLE", "x").run().expect(0);
    logged(&["run", "--min-hold", "1m", "--splay", "10ms", "Z", "--", "true"], 0);
    logged(&["run", "-S", "redis://127.0.0.1:1", "Y", "--", "true"], 69);
    logged(&["release", "-k", "Y", "--token=68413f2f-8e0b-49a8-8a46-e268c50c52f7"], 1);
    let token = logged(&["acquire", "by-hand"], 0).stdout;
    for command in ["check", "renew", "release"] {
        logged(&[command, "-k", "by-hand", "--token", token.trim()], 0);
    }
    let lines = fs::read_to_string(log).expect("the log");
    check("event", &lines);
    let mut names: Vec<&str> =
        lines.split("\"event\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() >= 16 && names.contains(&"lock_release_failed"), "{names:?}");
    assert!(names.contains(&"token_shown") && names.contains(&"unknown_variable"), "{names:?}");
}
