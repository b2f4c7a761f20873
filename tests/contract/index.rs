//! The index of the locks in Redis: `status` beside many other keys.

use std::time::Duration;

use serde_json::Value;

use crate::harness::{Redis, Redlock, Store, eventually, free_port, in_cluster, ttl};

const INDEX: &str = "redlock:{}:locks";

/// With a server that has too many keys to look at all of their names.
fn crowded() -> Store {
    let store = Store::redis();
    let fill = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, i) end";
    cli(&store, &["eval", fill, "0"]);
    store
}

fn cli(store: &Store, args: &[&str]) -> String {
    store.redis.as_ref().expect("Redis").cli(args)
}

fn calls(store: &Store, command: &str) -> u64 {
    store.redis.as_ref().expect("Redis").commandstats().get(command).copied().unwrap_or(0)
}

/// The keys that `status` shows.
fn shown(store: &Store) -> Vec<String> {
    let status = store.redlock(&["status", "--json"]).run().expect(0).stdout;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let locks = status.as_array().expect("the locks").iter();
    locks.map(|lock| lock["key"].as_str().expect("a key").to_owned()).collect()
}

fn indexed(store: &Store) -> Vec<String> {
    let mut keys: Vec<String> =
        cli(store, &["zrange", INDEX, "0", "-1"]).lines().map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn the_locks_in_use_are_found_among_many_keys() {
    let store = crowded();
    let holders = [
        store.hold("exclusive", &[]),
        store.hold("shared", &["--shared"]),
        store.hold("permits", &["--permits", "3"]),
    ];
    // Another library's lock, for which one of ours waits.
    cli(&store, &["set", "foreign", "somebody"]);
    let waiter = store.wait_in_line("foreign", "1", &[]);
    store.redlock(&["acquire", "-k", "by-hand"]).run().expect(0);
    store.redlock(&["run", "-k", "kept", "--min-hold", "10s", "--ttl", "1s", "--", "true"]).run().expect(0);
    store.redlock(&["run", "-k", "free", "--", "true"]).run().expect(0);
    // The first one reads the names of all keys, and enters what is missing.
    cli(&store, &["zrem", INDEX, "by-hand", "kept", "foreign", "shared"]);
    let all = ["by-hand", "exclusive", "foreign", "kept", "permits", "shared"];
    assert_eq!(shown(&store), all);
    assert_eq!(shown_by_index(&store), all);
    drop((holders, waiter));
}

/// The keys that `status` shows without a look at the names of all keys.
fn shown_by_index(store: &Store) -> Vec<String> {
    let before = calls(store, "scan");
    let shown = shown(store);
    assert!(calls(store, "scan") - before <= 10, "it read the names of all keys");
    shown
}

/// A hundred with one request, the next hundred before that is answered. Those that are not simply held are looked at more
/// closely, and one that is no lock is in nobody's way.
#[test]
fn each_of_many_is_told_from_the_others() {
    let store = crowded();
    let keys: Vec<String> = (0..250).map(|number| format!("key{number:03}")).collect();
    let others = [("key200", "--shared"), ("key210", "--permits=3")]
        .map(|(key, mode)| store.hold(key, &["--label", key, mode]));
    let kept = ["run", "-k", "key220", "--label", "key220", "--min-hold", "10m", "-q", "--", "true"];
    store.redlock(&kept).run().expect(0);
    for key in keys.iter().filter(|key| !["key200", "key210", "key220"].contains(&&key[..])) {
        store.redlock(&["acquire", "-k", key, "--ttl", "10m", "--label", key]).run().expect(0);
    }
    cli(&store, &["persist", "key230"]);
    cli(&store, &["del", "key120"]);
    cli(&store, &["lpush", "key120", "no lock"]);
    let waiters = ["key030", "key130"].map(|key| {
        let waiter = store.wait_in_line(key, "1", &[]);
        store.await_waiters(key, 1);
        waiter
    });
    let before = calls(&store, "evalsha");
    let status = store.redlock(&["status", "--json"]).run().expect(0).stdout;
    assert!(calls(&store, "evalsha") - before <= 8, "it asked for one after the other");
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let told = status.as_array().expect("the locks").iter().map(|lock| {
        let key = lock["key"].as_str().expect("a key");
        assert_eq!(lock["holders"][0]["label"], key);
        // By itself it is looked at by the script.
        assert_eq!(without_time_left(lock.clone()), without_time_left(store.status(key)));
        key
    });
    assert!(told.eq(keys.iter().map(String::as_str).filter(|key| *key != "key120")));
    drop((others, waiters));
}

fn without_time_left(mut lock: Value) -> Value {
    let left = &mut lock["holders"][0]["left_ms"];
    *left = left.is_u64().into();
    lock
}

#[test]
fn a_lock_stays_in_it_as_long_as_it_is_held() {
    let store = crowded();
    let job = store.hold("X", &["--ttl", &ttl(900)]);
    let score = || cli(&store, &["zscore", INDEX, "X"]).parse::<f64>().expect("a time");
    let first = score();
    eventually(Duration::from_secs(20), "renewals", || score() > first);
    assert_eq!(shown(&store), ["X"]);
    let waiter = store.wait_in_line("X", "1", &[]);
    store.await_waiters("X", 1);
    job.let_go().expect(0);
    waiter.finish().expect(0);
    let reader = store.hold("shared", &["--shared"]);
    store.redlock(&["run", "-k", "shared", "--shared", "--", "true"]).run().expect(0);
    assert_eq!(indexed(&store), ["shared"]);
    reader.let_go().expect(0);
    assert_eq!(indexed(&store), [""; 0]);
    let kept = ["run", "-k", "kept", "--min-hold", "1000s", "--ttl", &ttl(900), "-q", "--", "true"];
    store.redlock(&kept).run().expect(0);
    let now: f64 = cli(&store, &["time"]).lines().next().and_then(|now| now.parse().ok()).expect("a time");
    let until: f64 = cli(&store, &["zscore", INDEX, "kept"]).parse().expect("a time");
    assert!(until / 1000.0 - now > 500.0, "{until} at {now}");
}

/// Of a holder that was killed, when its lease is over and somebody else takes any lock.
#[test]
fn the_dead_are_forgotten() {
    let store = crowded();
    for key in ["a", "b"] {
        store.redlock(&["acquire", "-k", key, "--ttl", &ttl(500)]).run().expect(0);
    }
    eventually(Duration::from_secs(20), "the end of the leases", || {
        cli(&store, &["exists", "a", "b"]) == "0"
    });
    assert_eq!(shown(&store), [""; 0]);
    store.redlock(&["acquire", "-k", "c"]).run().expect(0);
    assert_eq!(indexed(&store), ["c"]);
}

/// Locks do without it, and `status` looks at all names.
#[test]
fn something_else_in_its_place_harms_nobody() {
    let store = crowded();
    cli(&store, &["set", INDEX, "something else"]);
    let holders = [store.hold("exclusive", &[]), store.hold("shared", &["--shared"])];
    assert_eq!(shown(&store), ["exclusive", "shared"]);
    for holder in holders {
        assert_eq!(holder.let_go().expect(0).stderr, "");
    }
    assert_eq!(cli(&store, &["get", INDEX]), "something else");
}

/// One that is lost begins anew with the next lock, and does not pass for complete.
#[test]
fn without_an_index_all_names_are_looked_at() {
    let store = crowded();
    store.redlock(&["acquire", "-k", "by-hand", "--ttl", "10m"]).run().expect(0);
    assert_eq!(shown(&store), ["by-hand"]);
    cli(&store, &["del", INDEX]);
    store.redlock(&["run", "-k", "X", "-q", "--", "true"]).run().expect(0);
    let job = store.hold("Y", &[]);
    assert_eq!(shown(&store), ["Y", "by-hand"]);
    assert_eq!(shown_by_index(&store), ["Y", "by-hand"]);
    job.let_go().expect(0);
    // One without a lock says that there is none.
    store.redlock(&["break", "-k", "by-hand", "--yes"]).run().expect(0);
    store.redlock(&["break", "-k", "by-hand", "--yes"]).run();
    assert_eq!(shown_by_index(&store), [""; 0]);
    store.redlock(&["doctor"]).run();
    assert_eq!(shown_by_index(&store), [""; 0]);
}

/// No request of a `run` removes more than a server does in a moment, and `status` leaves out what is over.
#[test]
fn the_end_of_many_locks_is_no_work_for_one() {
    let store = crowded();
    let job = store.hold("X", &[]);
    assert_eq!(shown(&store), ["X"]);
    let fill = "for i = 1, 5000 do redis.call('ZADD', KEYS[1], i, 'over:' .. i) end";
    cli(&store, &["eval", fill, "1", INDEX]);
    let entries = || cli(&store, &["zcard", INDEX]).parse::<u64>().expect("a number");
    let before = entries();
    store.redlock(&["run", "-k", "Y", "--", "true"]).run().expect(0);
    assert!((1..=1000).contains(&(before - entries())), "{before} {}", entries());
    let looks = calls(&store, "evalsha");
    assert_eq!(shown_by_index(&store), ["X"]);
    assert!(calls(&store, "evalsha") - looks <= 2, "it looked at locks that are over");
    job.let_go().expect(0);
}

/// Those of others hide none of a user's own.
#[test]
fn a_team_sees_its_own_among_those_of_others() {
    let store = crowded();
    let redis = store.redis.as_ref().expect("Redis");
    let keys = (0..130).map(|number| format!("other{number}"));
    for key in keys.chain(["deploy:a".to_owned(), "deploy:b".to_owned()]) {
        store.redlock(&["acquire", "-k", &key, "--ttl", "10m"]).run().expect(0);
    }
    let rules = ["~deploy:*", "~redlock:{deploy:*", "~redlock:{}:locks", "&redlock:{deploy:*", "+@all"];
    let user =
        [&["acl", "setuser", "team", "on", ">word", "resetkeys", "resetchannels"], &rules[..]].concat();
    assert_eq!(redis.cli(&user), "OK");
    let url = format!("redis://team:word@127.0.0.1:{}", redis.port);
    let seen = || {
        let status = Redlock::new(&["status", "--json"]).server(&url).run().expect(0).stdout;
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let keys = status.as_array().expect("the locks").iter().map(|lock| lock["key"].clone());
        keys.collect::<Vec<_>>()
    };
    // It cannot say what is all.
    assert_eq!(seen(), ["deploy:a", "deploy:b"]);
    cli(&store, &["zrem", INDEX, "other7"]);
    assert_eq!(seen(), ["deploy:a", "deploy:b"]);
    assert_eq!(shown(&store).len(), 132);
    assert_eq!(seen(), ["deploy:a", "deploy:b"]);
}

/// Its servers refuse a request about locks in several slots.
#[test]
fn a_server_of_a_cluster_by_itself() {
    let redis = Redis::with(&in_cluster(&free_port().to_string()));
    assert_eq!(redis.cli(&["cluster", "addslotsrange", "0", "16383"]), "OK");
    let ask = |args: &[&str]| Redlock::new(args).server(&redis.url());
    eventually(Duration::from_secs(20), "its slots", || ask(&["acquire", "-k", "a"]).run().code() == 0);
    ask(&["acquire", "-k", "b"]).run().expect(0);
    for args in [&["status", "--json"][..], &["status", "--json", "a", "b"]] {
        let status: Value = serde_json::from_str(&ask(args).run().expect(0).stdout).expect("JSON");
        let keys: Vec<&Value> =
            status.as_array().expect("the locks").iter().map(|lock| &lock["key"]).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}

/// The first of several holders that finds the data lost writes what the others need not.
#[test]
fn what_was_healed_is_in_it() {
    let store = crowded();
    let time = ttl(900);
    let holders = [0, 1].map(|_| {
        let job = store.redlock(&["run", "-k", "X", "--permits", "2", "--ttl", &time, "--", "cat"]);
        job.open_stdin().spawn()
    });
    eventually(Duration::from_secs(20), "two holders", || store.status("X")["holders"][1].is_object());
    cli(&store, &["flushall"]);
    eventually(Duration::from_secs(20), "two holders again", || store.status("X")["holders"][1].is_object());
    let score = || cli(&store, &["zscore", INDEX, "X"]).parse::<f64>().unwrap_or(0.0);
    let first = score();
    eventually(Duration::from_secs(20), "renewals", || score() > first);
    assert_eq!(indexed(&store), ["X"]);
    holders.into_iter().for_each(|holder| drop(holder.let_go().expect(0)));
}

/// Each has its own index; a majority decides what is held.
#[test]
fn the_servers_of_a_quorum_have_one_each() {
    let store = Store::quorum3();
    let job = store.hold("X", &[]);
    assert_eq!(shown(&store), ["X"]);
    job.let_go().expect(0);
    assert_eq!(shown(&store), [""; 0]);
}
