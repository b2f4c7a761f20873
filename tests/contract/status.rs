//! What `status` and waiters show.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::harness::{Store, eventually, log_command};

const SOON: Duration = Duration::from_secs(60);

pub fn holder_and_waiters(store: &Store) {
    let before = SystemTime::now();
    let holder = store.hold("X", &["--ttl", "60s", "--label", "nightly backup"]);
    let waiters: Vec<_> = (1..=3)
        .map(|place| {
            let waiter =
                store.wait_in_line("X", &place.to_string(), &["--label", &format!("waiter {place}")]);
            store.await_waiters("X", place);
            waiter
        })
        .collect();

    // On a busy machine a waiter may lose its place in etcd and ZooKeeper: it stands at the end of the line then.
    let pids = |lock: &Value| -> Vec<i64> {
        let waiters = lock["waiters"].as_array().into_iter().flatten();
        waiters.filter_map(|waiter| waiter["pid"].as_i64()).collect()
    };
    let number =
        |pid: i64| waiters.iter().position(|waiter| i64::from(waiter.pid()) == pid).map(|place| place + 1);
    let calls = [&["status", "X"][..], &["status"], &["status", "?"], &["status", "X*", "-k", "other"]];
    let (mut lock, mut texts) = (Value::Null, Vec::new());
    eventually(SOON, "all of them, in their places for a while", || {
        lock = store.status("X");
        texts = calls.map(|args| store.redlock(args).run().expect(0).stdout).to_vec();
        pids(&lock).len() == waiters.len() && pids(&lock) == pids(&store.status("X"))
    });
    assert_eq!(lock["key"], "X");
    let shown = &lock["holders"][0];
    let host = nix::unistd::gethostname().expect("a host name").into_string().expect("in UTF-8");
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).expect("users").expect("this user").name;
    assert_eq!(shown["host"], host);
    assert_eq!(shown["pid"], holder.pid());
    assert_eq!(shown["user"], user);
    assert_eq!(shown["label"], "nightly backup");
    assert_eq!(shown["foreign"], false);
    assert!(shown["fence"].as_u64().is_some_and(|fence| fence > 0), "{shown}");
    if !store.is_zookeeper() {
        assert!(shown["left_ms"].as_u64().is_some_and(|left| (1..=60_000).contains(&left)), "{shown}");
    }
    let since = shown["since"].as_str().expect("a time");
    let since = humantime::parse_rfc3339(since).expect("in RFC 3339");
    assert!(since + std::time::Duration::from_millis(1) >= before && since <= SystemTime::now(), "{shown}");
    let numbers: Vec<usize> =
        pids(&lock).into_iter().map(|pid| number(pid).expect("a waiter of ours")).collect();
    for (shown, number) in lock["waiters"].as_array().expect("waiters").iter().zip(&numbers) {
        assert_eq!(shown["label"], format!("waiter {number}"));
        assert_eq!(
            (&shown["host"], &shown["user"]),
            (&lock["holders"][0]["host"], &lock["holders"][0]["user"])
        );
        assert!(shown["since"].is_string(), "{shown}");
    }
    if !store.counts_in_seconds() {
        assert_eq!(numbers, [1, 2, 3]);
    }

    for shown in texts {
        let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown}"));
        let places: Vec<usize> = numbers.iter().map(|number| at(&format!("waiter {number}"))).collect();
        assert!(at("nightly backup") < places[0] && places.is_sorted(), "{shown}");
    }
    let in_full = store.redlock(&["status", "X"]).run().expect(0).stdout;
    let lease = if store.is_zookeeper() { "it ends with the session" } else { "alive: renewed " };
    assert!(in_full.starts_with("X ") && in_full.contains(lease), "{in_full}");
    let others = store.redlock(&["status", "Y*"]).run().expect(0).stdout;
    assert_eq!(others.lines().count(), 1, "{others}");
    holder.let_go().expect(0);
    for waiter in waiters {
        waiter.finish().expect(0);
    }
}

/// A tick of cron that is over, and whose lock is not.
pub fn kept_by_min_hold(store: &Store) {
    let modes = [&[][..], &["--shared"]];
    for mode in modes.into_iter().take(if store.is_memcached() { 1 } else { 2 }) {
        let key = format!("X{}", mode.concat());
        store
            .redlock(&[&["run", "-k", &key, "--min-hold", "1m"], mode, &["--", "true"]].concat())
            .run()
            .expect(0);
        assert_eq!(store.status(&key)["holders"][0]["kept"], true);
        let shown = store.redlock(&["status", "-k", &key]).run().expect(0).stdout;
        assert!(shown.contains("the job has ended; kept until "), "{shown}");
        let holder = store.hold("Y", mode);
        assert_eq!(store.status("Y")["holders"][0]["kept"], false);
        holder.let_go().expect(0);
    }
}

/// What a terminal or the runner of a CI system would act on never reaches it, and a screen is not filled.
pub fn hostile_labels_are_harmless(store: &Store) {
    let long = "x".repeat(10_000);
    for label in [
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "a\u{9b}31mb",
        "line\nbreak\rreturn\ttab",
        "safe\u{202e}desrever\u{2066}",
        "a ##[set-output name=x]y ##vso[task.setvariable]",
        &long,
    ] {
        let holder = store.hold("X", &["--label", label]);
        let waiter = store.redlock(&["run", "--key", "X", "--wait", "--label", label, "--", "true"]).spawn();
        store.await_waiters("X", 1);
        let table = store.redlock(&["status"]).run().expect(0);
        assert_eq!(table.stdout.lines().count(), 3, "{table:?}");
        let in_full = store.redlock(&["status", "X"]).run().expect(0);
        assert_eq!(in_full.stdout.lines().count(), 7, "{in_full:?}");
        let json = store.redlock(&["status", "--json"]).run().expect(0);
        let refused = store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
        refused.line();
        let told = holder.let_go().expect(0);
        let waited = waiter.finish().expect(0);
        // It says so again every 30 s. A busy store may confirm the release too late.
        let whole = ["redlock: 'X' is held by ", "redlock: could not release 'X': "];
        let is_whole = |line: &str| whole.iter().any(|start| line.starts_with(start));
        assert!(!waited.stderr.is_empty() && waited.stderr.lines().all(is_whole), "{waited:?}");
        for text in [table.stdout, in_full.stdout, json.stdout, refused.stderr, told.stderr, waited.stderr] {
            assert!(text.len() < 2_000, "{} bytes", text.len());
            let harmful = text
                .chars()
                .find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{2069}').contains(c));
            assert_eq!((harmful, log_command(&text)), (None, None), "{text:?}");
        }
        eventually(SOON, "the end", || store.status("X")["holders"][0].is_null());
    }
}
