//! What only a Redis can meet: other programs on the same keys.

use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;

use crate::harness::{
    Finished, Redis, Redlock, Running, Store, eventually, fits, in_ms, least_acl, log_command, slowed, within,
};

/// What a free lock leaves in Redis, in bytes, beside its name.
const LEFT_BESIDE_THE_NAME: u64 = 200;

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
    redis.cli(&["zadd", "zset", "1", "member"]);
    for (key, kind) in
        [("list", "a list"), ("hash", "a hash (as Redisson's)"), ("zset", "a zset (as Symfony's)")]
    {
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
    assert_eq!(redis.cli(&["dbsize"]), "3");
}

/// One bad name does not take the overview, or another lock, from everybody.
#[test]
fn a_key_named_as_redlocks_own_harms_no_other() {
    let store = Store::redis();
    for key in ["redlock:{a}:state", "redlock:{a}:queue:a"] {
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
        within(Duration::from_secs(5), start);
        redis.cli(&["set", "X", "somebody", "PX", "60000"]);
    }
}

/// Only a person takes a lock away that has no time limit.
#[test]
fn a_foreign_holder_without_an_end_is_waited_for() {
    let store = Store::redis();
    let redis = server(&store);
    redis.cli(&["set", "X", "somebody"]);
    let limit = in_ms(slowed(2000));
    store.redlock(&["run", "--key", "X", "--wait", &limit, "--", "true"]).run().expect(75);
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
    let token = store.redlock(&["acquire", "--key", "X", "--ttl", "1h"]).run().expect(0).stdout;
    let waiter = store.wait_in_line("X", "served", &[]);
    store.await_waiters("X", 1);
    let [lease, queue] = ["lease", "queue"].map(|part| format!("redlock:{{X}}:{part}:X"));
    let known = redis.cli(&["get", &lease]);
    let (times_and_owner, _) = known.split_once(" {").expect("metadata");
    assert_eq!(redis.cli(&["zcard", &queue]), "1");

    let escape = r#"{"host":"\u001b[2J","pid":7,"user":"\u202e","label":"\u0007\n\n"}"#;
    let log =
        r###"{"host":"::add-mask::x","pid":7,"user":"##[a]","label":"##[set-output name=x]#\u00ad#[b]"}"###;
    let long = format!(r#"{{"host":"{0}","pid":7,"user":"{0}","label":"{0}"}}"#, "x".repeat(10_000));
    let broken =
        ["", "{", "[]", "null", "\u{1b}[2J", r#"{"host":7}"#, r#"{"pid":"x"}"#, r#"{"pid":-1,"since":1e99}"#];
    for metadata in [escape, log, &long].into_iter().chain(broken) {
        redis.cli(&["set", &lease, &format!("{times_and_owner} {metadata}")]);
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

/// Also where the new holder dies before it could renew: who is told of the grant looks at it.
#[test]
fn the_next_in_line_knows_when_the_lease_ends() {
    let store = Store::redis();
    assert_eq!(server(&store).cli(&["script", "flush"]), "OK");
    let ttl = store.ttl(2000);
    let first = store.hold("X", &["--ttl", &ttl]);
    let job = ["run", "--key", "X", "--wait", "--ttl", &ttl, "--", "sleep", "60"];
    let second = store.redlock(&job).spawn();
    store.await_waiters("X", 1);
    let third = store.wait_in_line("X", "third", &[]);
    store.await_waiters("X", 2);
    let calls = || server(&store).commandstats()["evalsha"];
    let before = calls();
    first.let_go().expect(0);
    eventually(Duration::from_secs(5), "it is given back and confirmed", || calls() >= before + 2);
    let start = Instant::now();
    second.signal(Signal::SIGKILL);
    second.finish().expect(-9);
    third.finish().expect(0);
    within(Duration::from_secs(4), start);
}

/// Its lease ends when it says so, and it tells nobody.
#[test]
fn a_foreign_lease_is_followed_at_once() {
    const LEASE: Duration = Duration::from_millis(2500);
    let store = Store::redis();
    let mut late: Vec<Duration> = (0..5)
        .map(|_| {
            server(&store).cli(&["set", "X", "somebody", "NX", "PX", &LEASE.as_millis().to_string()]);
            let start = Instant::now();
            let waiter = store.redlock(&["run", "-k", "X", "--wait", "--", "date", "+%s%N"]).spawn();
            let end = SystemTime::now() + LEASE - start.elapsed();
            let begun: u64 = waiter.finish().expect(0).stdout.trim().parse().expect("a time");
            let begun = SystemTime::UNIX_EPOCH + Duration::from_nanos(begun);
            begun.duration_since(end).unwrap_or_default()
        })
        .collect();
    late.sort();
    println!("{late:?}");
    // With the start of a process; what another one on this machine takes meets not most of them.
    assert!(late[2] < Duration::from_millis(150), "{late:?}");
}

/// A client of another library tells nobody that it released the lock: the first waiter asks, however long it has waited.
#[test]
fn a_foreign_release_is_noticed_soon() {
    let store = Store::redis();
    let keys = ["A", "B", "C", "D", "E"];
    let waiters = keys.map(|key| {
        server(&store).cli(&["set", key, "somebody", "PX", "600000"]);
        store.redlock(&["run", "-k", key, "--wait", "--", "date", "+%s%N"]).spawn()
    });
    std::thread::sleep(Duration::from_secs(3));
    let release = SystemTime::now();
    server(&store).cli(&[&["del"], &keys[..]].concat());
    let mut late = waiters.map(|waiter| {
        let begun: u64 = waiter.finish().expect(0).stdout.trim().parse().expect("a time");
        (SystemTime::UNIX_EPOCH + Duration::from_nanos(begun)).duration_since(release).unwrap_or_default()
    });
    late.sort();
    println!("{late:?}");
    // At intervals that grow to a second, the one in the middle took half a second.
    assert!(fits(late[2], Duration::from_millis(300)), "{late:?}");
}

/// What stands where an owner token does is none, whoever says so.
#[test]
fn a_mark_releases_nothing() {
    let store = Store::redis();
    let redis = server(&store);
    let reader = store.hold("X", &["--shared"]);
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/script/lua");
    let read = |name: &str| std::fs::read_to_string(format!("{scripts}/{name}")).expect("a script");
    let names: Vec<String> = ["state", "lease:X", "queue:X", "holders:X", "asked:X", "claimed:X"]
        .map(|part| format!("redlock:{{X}}:{part}"))
        .to_vec();
    for script in ["release.lua", "renew.lua", "check.lua", "break.lua", "acquire.lua", "acquire_one.lua"] {
        let fast = match script {
            "acquire.lua" => read("acquire_quick.lua"),
            "release.lua" => read("release_quick.lua"),
            _ => String::new(),
        };
        let functions = if script.starts_with("acquire") { read("request.lua") } else { String::new() };
        let text =
            read("keys.lua") + &fast + &read("holders.lua") + &read("queue.lua") + &functions + &read(script);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let arguments = ["1", "shared:", "1000", "", "once", "", "0", "exclusive"];
        let answer = redis.cli(&[&["eval", &text, "7", "X"], &names[..], &arguments].concat());
        assert!(answer.contains("no owner token"), "{script}: {answer}");
    }
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    reader.let_go().expect(0);
}

#[test]
fn a_side_key_of_another_type_is_named() {
    for part in ["state", "queue:X"] {
        let store = Store::redis();
        let name = format!("redlock:{{X}}:{part}");
        server(&store).cli(&["rpush", &name, "a"]);
        for args in [
            &["run", "-k", "X", "--", "echo", "ran"][..],
            &["run", "-k", "X", "--wait", "5s", "--", "echo", "ran"],
            &["acquire", "-k", "X"],
            &["status", "X"],
        ] {
            let refused = store.redlock(args).run().expect(78);
            let line = refused.line();
            assert!(line.contains("'X' is not a lock") && line.contains(&name), "{line}");
            assert!(!line.contains("may stay locked") && refused.stdout.is_empty(), "{refused:?}");
        }
    }
}

/// Lua counts in floating point, which is exact up to 2^53.
#[test]
fn fencing_tokens_end_before_they_repeat() {
    let store = Store::redis();
    let set = |fence: &str| drop(server(&store).cli(&["hset", "redlock:{X}:state", "fence", fence]));
    let refused = |ended: Finished| {
        let ended = ended.expect(78);
        assert!(ended.stderr.contains("'X' cannot be used") && ended.stderr.contains("2^53"), "{ended:?}");
        assert_eq!(ended.stdout, "");
    };
    let print = ["run", "-k", "X", "--", "sh", "-c", "echo $REDLOCK_FENCE"];
    for fence in ["9007199254740991", "9007199254740992", "9007199254740993", "18446744073709551615"] {
        set(fence);
        refused(store.redlock(&print).run());
    }
    set("9007199254740989");
    let holder = store.hold("X", &[]);
    let waiter =
        store.redlock(&["run", "-k", "X", "--wait", "--", "sh", "-c", "echo $REDLOCK_FENCE"]).spawn();
    store.await_waiters("X", 1);
    let other = store.redlock(&["run", "-k", "X", "--wait", "--", "echo", "ran"]).spawn();
    store.await_waiters("X", 2);
    holder.let_go().expect(0);
    assert_eq!(waiter.finish().expect(0).stdout, "9007199254740991\n");
    refused(other.finish());
}

/// As a pipeline leaves it that has a key for each run: little beside the name.
#[test]
fn a_free_lock_leaves_little() {
    let store = Store::redis();
    let redis = server(&store);
    let label = ["--label", "a label that is longer than the sixty-four bytes of a compact value in Redis"];
    // Whoever acquires the next lock removes it from the index: see `the_dead_are_forgotten`. The last success is apart, as
    // is a history.
    let bytes = || -> u64 {
        let keys = redis.cli(&["keys", "*"]);
        let keys = keys.lines().filter(|key| *key != "redlock:{}:locks" && !key.contains(":success:"));
        keys.map(|key| redis.cli(&["memory", "usage", key]).parse::<u64>().unwrap_or(0)).sum()
    };
    let keys = [10, 30, 100].map(|length| "k".repeat(length));
    let await_little = |keys: &[String]| {
        let little = keys.iter().map(|key| LEFT_BESIDE_THE_NAME + key.len() as u64).sum();
        eventually(Duration::from_secs(20), "little is left", || (1..=little).contains(&bytes()));
        for key in keys {
            let left = redis.cli(&["pttl", &format!("redlock:{{{key}}}:state")]);
            let left: u64 = left.parse().expect("milliseconds");
            assert!(left < 25 * 3_600_000, "{left} ms");
        }
        println!("{} bytes of {} keys", bytes(), keys.len());
        redis.cli(&["flushall"]);
    };
    let job = |key: &str, kind: &[&str]| {
        let args = [&["run", "-k", key], &label[..], kind, &["--", "true"]].concat();
        store.redlock(&args).run().expect(0);
    };
    for key in &keys {
        for kind in [&[][..], &["--shared"], &["--permits", "3"]] {
            job(key, kind);
            await_little(std::slice::from_ref(key));
        }
    }
    keys.iter().for_each(|key| job(key, &["--min-hold", "1s"]));
    await_little(&keys);
    // Not given back.
    for key in &keys {
        let acquire = [&["acquire", "-k", key, "--ttl", "500ms"], &label[..]].concat();
        store.redlock(&acquire).run().expect(0);
    }
    await_little(&keys);
}

/// The README's line for cron keeps no history, and `check --ran-within` finds the last success all the same.
#[test]
fn the_last_success_is_kept_without_a_history() {
    let store = Store::redis();
    let redis = server(&store);
    let check = || store.redlock(&["check", "--ran-within", "26h", "X"]).run();
    store.redlock(&["run", "-k", "X", "--", "false"]).run().expect(1);
    check().expect(1);
    store.redlock(&["run", "-k", "X", "--label", "a label", "--", "true"]).run().expect(0);
    eventually(Duration::from_secs(20), "the last success", || check().code() == 0);
    store.redlock(&["run", "-k", "X", "--", "false"]).run().expect(1);
    check().expect(0);
    let histories = [&["history", "--json"][..], &["history", "--json", "X"]].map(|args| {
        let shown = store.redlock(args).run().expect(0).stdout;
        serde_json::from_str::<serde_json::Value>(&shown).expect("JSON")
    });
    assert_eq!(histories[0], histories[1]);
    assert_eq!(histories[0][0]["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(histories[0][0]["runs"][0]["outcome"], "success");
    let name = "redlock:{X}:success:X";
    assert!(redis.cli(&["strlen", name]).parse::<u64>().is_ok_and(|length| length < 220));
    assert!(redis.cli(&["pttl", name]).parse::<i64>().is_ok_and(|left| left > 86_400_000));

    // Runs that fail drive it out of no history.
    for status in [0, 1, 1, 1] {
        let job = format!("exit {status}");
        store.redlock(&["run", "-k", "Y", "--history", "2", "--", "sh", "-c", &job]).run().expect(status);
    }
    let outcomes = || {
        let shown = store.redlock(&["history", "--json", "Y"]).run().expect(0).stdout;
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        let runs = shown[0]["runs"].as_array().expect("runs").iter();
        runs.map(|run| run["outcome"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    eventually(Duration::from_secs(20), "two failures and the last success", || {
        outcomes() == ["failure", "failure", "success"]
    });
}

/// The clock of the server makes the tokens grow when the counter is forgotten, and not before it has come to that. The
/// clocks of the hosts have no part in it: after one that is ahead, the tokens of the others would fall.
#[test]
fn tokens_grow_whatever_the_clocks_say() {
    const DAY: u64 = 86_400;
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs();
    let store = Store::redis();
    let state = "redlock:{X}:state";
    // Granted by a host whose clock is ten days ahead.
    let ahead = (now() + 10 * DAY) * 1_000_000;
    server(&store).cli(&["hset", state, "fence", &ahead.to_string()]);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let kept: u64 = server(&store).cli(&["pttl", state]).parse().expect("milliseconds");
    assert!(kept > 10 * DAY * 1000, "{kept} ms");

    let print = ["run", "-k", "X", "--", "sh", "-c", "echo $REDLOCK_FENCE"];
    for (ahead, expected) in [(2 * DAY as i64, now() + 2 * DAY), (-(DAY as i64), now() - DAY)] {
        let store = Store::of(Redis::with_clock(ahead, &[]));
        let fence = store.redlock(&print).run().expect(0).stdout.trim().parse::<u64>();
        let apart = (fence.expect("a fencing token") / 1_000_000).abs_diff(expected);
        assert!(apart < DAY / 24, "{apart} s");
    }
}

/// Longer than a counter is kept without it.
#[test]
fn a_long_job_keeps_its_counter() {
    let store = Store::redis();
    let redis = server(&store);
    let state = "redlock:{X}:state";
    for kind in [&["--ttl", "1s"][..], &["--ttl", "1s", "--shared"]] {
        let holder = store.hold("X", kind);
        redis.cli(&["pexpire", state, "60000"]);
        eventually(Duration::from_secs(20), "it is kept on", || {
            redis.cli(&["pttl", state]).parse::<i64>().is_ok_and(|left| left > 60_000)
        });
        holder.let_go().expect(0);
    }
}

/// Each team has the permissions of the manual for its own keys.
#[test]
fn teams_are_kept_apart() {
    let store = Store::redis();
    let redis = server(&store);
    for team in ["a", "b"] {
        let acl = least_acl().replacen("locks", team, 1).replace(">PASSWORD", ">secret");
        let acl = acl.replace("deploy:", &format!("{team}:"));
        let rules: Vec<&str> = ["acl", "setuser"].into_iter().chain(acl.split(' ')).collect();
        assert_eq!(redis.cli(&rules), "OK");
    }
    let of = |team: &str, args: &[&str]| {
        let url = store.url.replace("redis://", &format!("redis://{team}:secret@"));
        Redlock::new(args).server(&url)
    };
    let b_holds: Vec<Running> = [&["-k", "b:x"][..], &["-k", "b:shared", "--shared"]]
        .into_iter()
        .map(|lock| {
            let running = of("b", &[&["run"], lock, &["--", "cat"]].concat()).open_stdin().spawn();
            store.await_holder(lock[1]);
            running
        })
        .collect();
    let waiter = of("b", &["run", "-k", "b:x", "--wait", "--", "true"]).spawn();
    store.await_waiters("b:x", 1);
    let before = redis.cli(&["hget", "redlock:{b:x}:state", "fence"]);

    let as_a = |args: &[&str]| {
        redis.cli(&[&["--user", "a", "--pass", "secret", "--no-auth-warning"], args].concat())
    };
    let keys = redis.cli(&["keys", "*"]);
    let channels = redis.cli(&["pubsub", "channels"]);
    assert!(keys.lines().count() >= 7 && channels.lines().count() == 1, "{keys} {channels}");
    for key in keys.lines().filter(|key| *key != "redlock:{}:locks") {
        for command in [
            &["get", key][..],
            &["hgetall", key],
            &["zrange", key, "0", "-1"],
            &["type", key],
            &["set", key, "x"],
            &["hset", key, "fence", "9000000000000000"],
            &["zadd", key, "1", "x"],
            &["pexpire", key, "1"],
            &["del", key],
            &["eval", "return redis.call('get', KEYS[1])", "1", key],
        ] {
            let answer = as_a(command);
            assert!(answer.contains("NOPERM"), "{command:?}: {answer}");
        }
        let hidden = as_a(&["eval", &format!("return redis.call('del', '{key}')"), "0"]);
        assert!(hidden.contains("key"), "{hidden}");
    }
    for channel in channels.lines() {
        assert!(as_a(&["publish", channel, "ask"]).contains("NOPERM"), "{channel}");
    }
    for args in
        [&["status", "b:x"][..], &["run", "-k", "b:x", "--", "true"], &["break", "-k", "b:x", "--yes"]]
    {
        of("a", args).run().expect(77);
    }
    assert_eq!(redis.cli(&["hget", "redlock:{b:x}:state", "fence"]), before);

    // What is their own works, and all that there is of it is seen.
    of("a", &["acquire", "-k", "a:x"]).run().expect(0);
    let seen = of("a", &["status", "--json"]).run().expect(0).stdout;
    assert!(seen.contains("a:x") && !seen.contains("b:x"), "{seen}");
    of("a", &["doctor", "-q"]).run().expect(0);
    b_holds.into_iter().for_each(|holder| drop(holder.let_go().expect(0)));
    waiter.finish().expect(0);
}

/// No script sees the keys of two slots. With one hash tag they are in one.
#[test]
fn one_of_several_is_in_one_slot_of_a_cluster() {
    let store = Store::cluster();
    let run = |keys: [&str; 2], options: &[&str]| {
        let args = [
            &["run", "--one-of", "-k", keys[0], "-k", keys[1]],
            options,
            &["--", "sh", "-c", "echo $REDLOCK_KEY"],
        ];
        store.redlock(&args.concat()).run()
    };
    let refused = run(["phone-1", "phone-2"], &[]).expect(78);
    assert!(refused.stderr.contains("the keys are in different slots of the cluster"), "{refused:?}");
    let tagged = ["{phones}1", "{phones}2"];
    let _first = store.hold(tagged[0], &[]);
    assert_eq!(run(tagged, &["--wait"]).expect(0).stdout, "{phones}2\n");
}

/// Nothing starts when nobody would know of it.
#[test]
fn a_number_that_is_not_kept_starts_nothing() {
    let store = Store::redis();
    let keys =
        ["~X", "~redlock:{X}:ho*", "~redlock:{X}:[slqac]*", "~redlock:{}:locks", "%R~redlock:{X}:history:X"];
    let user = [&["acl", "setuser", "deployer", "on", ">pw", "&*", "+@all"][..], &keys].concat();
    assert_eq!(server(&store).cli(&user), "OK");
    let run = |options: &[&str]| {
        let args = [&["run", "-k", "X", "--user", "deployer"], options, &["--", "echo", "ran"]].concat();
        store.redlock(&args).env("REDISCLI_AUTH", "pw").run()
    };
    assert_eq!(run(&[]).expect(0).stdout, "ran\n");
    let refused = run(&["--sequence", "7"]).expect(78);
    assert_eq!(refused.stdout, "");
    assert!(
        refused.stderr.contains("did not keep the number of this run, and nothing was started"),
        "{refused:?}"
    );
    assert_eq!(store.redlock(&["status", "--is-free", "X"]).run().code(), 0);
}

/// An hour of waiting makes up for one step of priority, so nobody starves.
#[test]
fn a_long_wait_is_ahead_of_a_higher_priority() {
    let store = Store::redis();
    let queue = "redlock:{X}:queue:X";
    let holder = store.hold("X", &[]);
    let mut waiters = vec![store.wait_in_line("X", "patient", &["--priority", "-1"])];
    store.await_waiters("X", 1);
    let place = server(&store).cli(&["zrange", queue, "0", "0"]);
    server(&store).cli(&["zincrby", queue, "-3700000000", &place]);
    for (count, priority) in [(2, "0"), (3, "1")] {
        waiters.push(store.wait_in_line("X", priority, &["--priority", priority]));
        store.await_waiters("X", count);
    }
    holder.let_go().expect(0);
    waiters.into_iter().for_each(|waiter| drop(waiter.finish().expect(0)));
    assert_eq!(store.order(), ["1", "patient", "0"]);
}

/// Any user of the server may write into a queue. A number that no holder can have counts as one permit.
#[test]
fn a_waiter_that_wants_a_billion_permits_holds_up_nobody() {
    let store = Store::redis();
    for (place, take) in ["1e9", "-5", "2.5", "\"x\"", "[]"].iter().enumerate() {
        let key = format!("X{place}");
        let queue = format!("redlock:{{{key}}}:queue:{key}");
        let member = format!("a-token-of-others permits:2000000000 {{\"take\":{take}}}");
        server(&store).cli(&["zadd", &queue, "1", &member]);
        let run = ["run", &key, "-p", "2000000000", "--", "printenv", "REDLOCK_PERMIT"];
        assert_eq!(store.redlock(&run).run().expect(0).stdout, "0\n", "{take}");
    }
}
