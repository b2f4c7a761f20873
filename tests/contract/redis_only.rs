//! What only a Redis can meet: other programs on the same keys.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Redis, Store, eventually, log_command};

#[test]
fn scripts_may_be_flushed_at_any_time() {
    let store = Store::redis();
    let flush = || assert_eq!(server(&store).cli(&["script", "flush"]), "OK");
    let acquired = store.redlock(&["acquire", "--key", "X"]).run().expect(0);
    for command in ["renew", "check", "release"] {
        flush();
        store.redlock(&[command, "--key", "X", "--token", acquired.stdout.trim()]).run().expect(0);
    }
    let holder = store.hold("X", &[]);
    let waiter = store.wait_in_line("X", "served", &[]);
    store.await_waiters("X", 1);
    flush();
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}

#[test]
fn a_key_that_is_no_lock_is_left_alone() {
    let store = Store::redis();
    let redis = server(&store);
    redis.cli(&["rpush", "list", "a", "b"]);
    redis.cli(&["hset", "hash", "field", "value"]);
    for (key, kind) in [("list", "list"), ("hash", "hash")] {
        let calls = [
            &["run", "--key", key, "--", "echo", "ran"][..],
            &["run", "--key", key, "--wait", "5s", "--", "echo", "ran"],
            &["acquire", "--key", key],
            &["renew", "--key", key, "--token", "T"],
            &["release", "--key", key, "--token", "T"],
            &["check", "--key", key, "--token", "T"],
            &["break", "--key", key, "--yes"],
            &["status", key],
        ];
        for args in calls {
            let refused = store.redlock(args).run().expect(78);
            assert_eq!(refused.stdout, "");
            let line = refused.line();
            assert!(line.contains(&format!("'{key}' is not a lock")) && line.contains(kind), "{line}");
        }
        assert_eq!(redis.cli(&["pttl", key]), "-1");
    }
    assert_eq!(redis.cli(&["lrange", "list", "0", "-1"]), "a\nb");
    assert_eq!(redis.cli(&["hgetall", "hash"]), "field\nvalue");
    assert_eq!(redis.cli(&["dbsize"]), "2");
}

/// One bad name does not take the overview, or another lock, from everybody.
#[test]
fn a_key_named_as_redlocks_own_harms_no_other() {
    let store = Store::redis();
    for key in ["redlock:{a}:state:a", "redlock:{a}:queue:a"] {
        let taken = store.redlock(&["acquire", "--key", key]).run();
        assert!([0, 64].contains(&taken.code()), "{taken:?}");
        store.redlock(&["status"]).run().expect(0);
        store.redlock(&["run", "--key", "a", "--", "true"]).run().expect(0);
    }
}

#[test]
fn a_foreign_holder_is_honoured_and_shown() {
    let store = Store::redis();
    let redis = server(&store);
    assert_eq!(redis.cli(&["set", "X", "somebody", "PX", "60000"]), "OK");
    let refused = store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    assert!(refused.line().contains("'X' is held by another program; "), "{refused:?}");
    let shown = &store.status("X")["holders"][0];
    assert_eq!(shown["foreign"], true);
    assert!(shown["left_ms"].as_u64().is_some_and(|left| (50_000..=60_000).contains(&left)), "{shown}");
    assert!(store.redlock(&["status", "X"]).run().expect(0).stdout.contains("another program"));
    assert_eq!(redis.cli(&["get", "X"]), "somebody");

    // Given back, and left to its time.
    for gone in [&["del", "X"][..], &["set", "X", "somebody", "PX", "1500"]] {
        let waiter = store.wait_in_line("X", "served", &[]);
        store.await_waiters("X", 1);
        let start = Instant::now();
        redis.cli(gone);
        waiter.finish().expect(0);
        assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
        redis.cli(&["set", "X", "somebody", "PX", "60000"]);
    }
}

/// Only a person takes a lock away that has no time limit.
#[test]
fn a_foreign_holder_without_an_end_is_waited_for() {
    let store = Store::redis();
    let redis = server(&store);
    redis.cli(&["set", "X", "somebody"]);
    store.redlock(&["run", "--key", "X", "--wait", "1s", "--", "true"]).run().expect(75);
    assert_eq!(redis.cli(&["get", "X"]), "somebody");
    assert!(store.status("X")["holders"][0]["left_ms"].is_null());
    store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// What other hosts wrote about themselves, with another program or on purpose.
#[test]
fn hostile_metadata_is_harmless() {
    let store = Store::redis();
    let redis = server(&store);
    let token = store.redlock(&["acquire", "--key", "X"]).run().expect(0).stdout;
    let waiter = store.wait_in_line("X", "served", &[]);
    store.await_waiters("X", 1);
    let [state, queue] = ["state", "queue"].map(|part| format!("redlock:{{X}}:{part}:X"));
    assert_eq!(redis.cli(&["hexists", &state, "metadata"]), "1");
    assert_eq!(redis.cli(&["zcard", &queue]), "1");

    let escape = r#"{"host":"\u001b[2J","pid":7,"user":"\u202e","label":"\u0007\n\n"}"#;
    let log =
        r###"{"host":"::add-mask::x","pid":7,"user":"##[a]","label":"##[set-output name=x]#\u00ad#[b]"}"###;
    let long = format!(r#"{{"host":"{0}","pid":7,"user":"{0}","label":"{0}"}}"#, "x".repeat(10_000));
    let broken =
        ["", "{", "[]", "null", "\u{1b}[2J", r#"{"host":7}"#, r#"{"pid":"x"}"#, r#"{"pid":-1,"since":1e99}"#];
    for metadata in [escape, log, &long].into_iter().chain(broken) {
        redis.cli(&["hset", &state, "metadata", metadata]);
        redis.cli(&["zadd", &queue, "9e15", &format!("a-token-of-others {metadata}")]);
        let shown = [
            store.redlock(&["status"]).run().expect(0).stdout,
            store.redlock(&["status", "--json"]).run().expect(0).stdout,
            store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75).stderr,
        ];
        for text in shown {
            assert!(text.len() < 5_000, "{} bytes", text.len());
            let harmful = text
                .chars()
                .find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{2069}').contains(c));
            assert_eq!((harmful, log_command(&text)), (None, None), "{text:?}");
        }
        redis.cli(&["zremrangebyrank", &queue, "1", "-1"]);
    }
    store.redlock(&["release", "--key", "X", "--token", token.trim()]).run().expect(0);
    waiter.finish().expect(0);
}

fn server(store: &Store) -> &Redis {
    store.redis.as_ref().expect("Redis")
}

/// A library that knows nothing of readers and permits is kept out by them.
#[test]
fn several_holders_keep_a_foreign_one_out() {
    for options in [&["--shared"][..], &["--permits", "2"]] {
        let store = Store::redis();
        let redis = server(&store);
        let holder = store.hold("X", options);
        let second = store.redlock(&[&["acquire", "--key", "X", "--ttl", "60s"][..], options].concat());
        let token = second.run().expect(0).stdout;
        let take = || redis.cli(&["set", "X", "somebody", "NX", "PX", "60000"]);
        assert_eq!(take(), "");
        holder.let_go().expect(0);
        assert_eq!(take(), "");
        store.redlock(&["release", "--key", "X", "--token", token.trim()]).run().expect(0);
        assert_eq!(take(), "OK");
        assert_eq!(redis.cli(&["get", "X"]), "somebody");
    }
}

/// Also where no job lives long enough to be renewed: the server learns the script from those who wait.
#[test]
fn the_next_in_line_knows_when_the_lease_ends() {
    let store = Store::redis();
    assert_eq!(server(&store).cli(&["script", "flush"]), "OK");
    let first = store.hold("X", &["--ttl", "2s"]);
    let job = ["run", "--key", "X", "--wait", "--ttl", "2s", "--", "sleep", "60"];
    let second = store.redlock(&job).spawn();
    store.await_waiters("X", 1);
    let third = store.wait_in_line("X", "third", &[]);
    store.await_waiters("X", 2);
    let calls = || server(&store).commandstats()["evalsha"];
    let before = calls();
    first.let_go().expect(0);
    eventually(Duration::from_secs(5), "it is given back, confirmed and told", || calls() >= before + 3);
    let start = Instant::now();
    second.signal(Signal::SIGKILL);
    second.finish().expect(-9);
    third.finish().expect(0);
    assert!(start.elapsed() < Duration::from_secs(4), "took {:?}", start.elapsed());
}
