//! `doctor` on stores that are as they should be, or that show little of themselves.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Finished, Redis, Redlock, Store, Tmux, eventually};

const PERSISTENT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn found(output: &Finished) -> Vec<Value> {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn levels(found: &[Value]) -> Vec<(&str, &str)> {
    found.iter().filter_map(|one| Some((one["check"].as_str()?, one["level"].as_str()?))).collect()
}

#[test]
fn a_healthy_server() {
    let redis = Redis::with(&PERSISTENT);
    let output = Redlock::new(&["doctor", "--json"]).server(&redis.url()).run().expect(0);
    assert_eq!(output.stderr, "");
    let found = found(&output);
    let checks = levels(&found);
    assert!(checks.iter().all(|(_, level)| *level == "ok"), "{checks:?}");
    for check in [
        "reachable",
        "version",
        "role",
        "permissions",
        "locking",
        "eviction",
        "persistence",
        "replicas",
        "clock",
        "ttl",
    ] {
        assert!(checks.iter().any(|(name, _)| *name == check), "{check} in {checks:?}");
    }
    for one in &found {
        let fields: Vec<_> = one.as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["advice", "check", "finding", "level", "server"]);
        assert_eq!(one["server"], redis.url());
    }
    assert_eq!(redis.cli(&["dbsize"]), "0", "something is left: {}", redis.cli(&["keys", "*"]));
}

#[test]
fn lines_for_people() {
    let redis = Redis::with(&PERSISTENT);
    let doctor = |args: &[&str]| {
        let args = [&["doctor"][..], args].concat();
        Redlock::new(&args).server(&redis.url()).run()
    };
    let lines = doctor(&[]).expect(0).stdout;
    assert!(lines.lines().count() >= 10, "{lines}");
    for line in lines.lines() {
        assert!(line.starts_with(&format!("ok  {}  ", redis.url())), "{line}");
    }
    assert!(doctor(&["--color", "always"]).expect(0).stdout.contains("\u{1b}[32mok"));
    assert_eq!(doctor(&["--quiet"]).expect(0).stdout, "");
    redis.cli(&["config", "set", "maxmemory-policy", "volatile-lru"]);
    let lines = doctor(&[]).expect(0).stdout;
    assert!(
        lines.lines().any(|line| line.starts_with("warning") && line.contains("volatile-lru")),
        "{lines}"
    );
    redis.cli(&["config", "set", "maxmemory", "100mb"]);
    let bad = doctor(&["--quiet"]).expect(1).stdout;
    assert!(bad.starts_with("bad ") && bad.contains("set maxmemory-policy noeviction"), "{bad}");
    assert_eq!(bad.lines().count(), 1, "{bad}");
}

/// The ACL of the manual forbids PING, INFO and CONFIG; what cannot be seen is not bad.
#[test]
fn a_server_that_shows_little() {
    let redis = Redis::with(&PERSISTENT);
    let manual = include_str!("../../man/sections/redlock.roff");
    let rules = manual.split("ACL SETUSER ").nth(1).and_then(|text| text.split(".fi").next());
    let rules = rules.expect("the least ACL").replace("PASSWORD", "canary").replace("\\-", "-");
    let rules: Vec<&str> = rules.split_whitespace().collect();
    assert_eq!(redis.cli(&[&["acl", "setuser"][..], &rules].concat()), "OK");
    let url = format!("redis://locks:canary@127.0.0.1:{}", redis.port);
    let output = Redlock::new(&["doctor", "--json"]).server(&url).run().expect(0);
    assert!(!output.stdout.contains("canary"));
    let found = found(&output);
    for (check, level) in levels(&found) {
        let is_hidden = ["version", "role", "eviction", "persistence"].contains(&check);
        assert_eq!(level, if is_hidden { "unknown" } else { "ok" }, "{check}");
    }
    assert!(
        found.iter().any(|one| one["finding"].as_str().is_some_and(|text| text.contains("could not see")))
    );
    assert_eq!(redis.cli(&["dbsize"]), "0");
}

/// A service that forbids CONFIG alone.
#[test]
fn a_server_without_config() {
    let redis = Redis::with(&["--rename-command", "CONFIG", "", "--maxmemory", "10mb"]);
    let output = Redlock::new(&["doctor", "--json"]).server(&redis.url()).run().expect(0);
    let checks = found(&output);
    let checks = levels(&checks);
    assert!(
        checks.contains(&("eviction", "ok")) && checks.contains(&("persistence", "warning")),
        "{checks:?}"
    );
}

#[test]
fn a_login_that_is_refused() {
    let redis = Redis::with(&["--requirepass", "canary"]);
    for url in [redis.url(), format!("redis://:wrong@127.0.0.1:{}", redis.port)] {
        let output = Redlock::new(&["doctor", "--json"]).server(&url).run().expect(1);
        let found = found(&output);
        assert_eq!(levels(&found), [("login", "bad")], "{output:?}");
    }
}

#[test]
fn a_file() {
    let store = Store::local();
    std::fs::set_permissions(store.folder.path(""), PermissionsExt::from_mode(0o755)).expect("its mode");
    let output = store.redlock(&["doctor", "--json"]).run().expect(0);
    let found = found(&output);
    let checks = levels(&found);
    let expected = ["disk", "space", "locking", "ttl", "sharing"].map(|check| (check, "ok"));
    assert_eq!(checks, expected, "{output:?}");
    let database = rusqlite::Connection::open(store.folder.path("locks.db")).expect("the file");
    for table in ["lock", "holder", "waiter"] {
        let query = format!("SELECT count(*) FROM {table}");
        let left: i64 = database.query_row(&query, [], |row| row.get(0)).expect("a number");
        assert_eq!(left, 0, "something is left in {table}");
    }
}

#[test]
fn a_file_that_cannot_be_one() {
    let store = Store::local();
    let text = store.folder.path("text");
    std::fs::write(&text, "something else").expect("a file");
    std::fs::set_permissions(&text, PermissionsExt::from_mode(0o600)).expect("its mode");
    for (path, why) in [(store.folder.path(""), "directory"), (text, "holds something else")] {
        let url = format!("local:{}", path.display());
        let output = Redlock::new(&["doctor", "--json"]).server(&url).run().expect(1);
        let found = found(&output);
        let bad: Vec<_> = found.iter().filter(|one| one["level"] == "bad").collect();
        assert!(bad.len() == 1 && bad[0]["check"] == "locking", "{output:?}");
        assert!(bad[0]["finding"].as_str().is_some_and(|text| text.contains(why)), "{output:?}");
    }
}

#[test]
fn the_default_server() {
    // Nothing of ours listens there; should something else, it is no failure of redlock.
    if std::net::TcpStream::connect(("127.0.0.1", 6379)).is_ok() {
        return;
    }
    let output = Redlock::new(&["doctor"]).run().expect(1);
    assert!(
        output.stdout.contains("--server redis://") && output.stdout.contains("--server local:"),
        "{output:?}"
    );
}

/// Each server once, what is wrong in whole words, and a verdict.
#[test]
fn a_screen_for_people() {
    let servers = [(); 3].map(|()| Redis::with(&PERSISTENT));
    servers[0].cli(&["config", "set", "maxmemory-policy", "volatile-lru"]);
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let program = env!("CARGO_BIN_EXE_redlock");
    let line = format!("{program} doctor -S {}; sleep 60", urls.join(" -S "));
    let store = Store::local();
    for columns in [80, 120] {
        let terminal = Tmux::start(&store, [columns, 40], &format!("doctor.{columns}"), &line);
        let shown = || terminal.lines(&[]);
        let is_whole = || shown().iter().any(|line| line.starts_with("fit to hold locks: "));
        eventually(Duration::from_secs(30), "the verdict", is_whole);
        let lines = shown();
        assert!(lines.len() < 18, "{lines:#?}");
        for url in &urls {
            assert_eq!(lines.iter().filter(|line| *line == url).count(), 1, "{lines:#?}");
        }
        assert!(lines.iter().any(|line| line.starts_with("  warning  eviction: ")), "{lines:#?}");
        let text = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("set maxmemory-policy noeviction"), "{text}");
    }
}
