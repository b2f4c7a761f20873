//! Shared locks and semaphores.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Running, Store, eventually, slowed, ttl, within};

/// Somebody who holds X with these options until he is let go; others may hold it, too.
fn hold(store: &Store, options: &[&str]) -> Running {
    let holders = |store: &Store| store.status("X")["holders"].as_array().map_or(0, Vec::len);
    let before = holders(store);
    let args = [&["run", "--key", "X"][..], options, &["--", "cat"]].concat();
    let running = store.redlock(&args).open_stdin().spawn();
    eventually(Duration::from_secs(20), "one more holder", || holders(store) == before + 1);
    running
}

fn refused(store: &Store, options: &[&str], code: i32) -> String {
    let args = [&["run", "--key", "X"][..], options, &["--", "echo", "ran"]].concat();
    let refused = store.redlock(&args).run().expect(code);
    assert_eq!(refused.stdout, "");
    refused.line().to_owned()
}

pub fn readers_hold_it_together(store: &Store) {
    let readers = [hold(store, &["--shared"]), hold(store, &["--shared", "--label", "second"])];
    let status = store.status("X");
    assert_eq!((&status["kind"], status["holders"].as_array().map(Vec::len)), (&"shared".into(), Some(2)));
    assert!(status["holders"][0]["fence"].as_u64() < status["holders"][1]["fence"].as_u64());
    assert_eq!(status["holders"][1]["label"], "second");
    assert!(refused(store, &[], 75).contains("is held by"));
    for reader in readers {
        reader.let_go().expect(0);
    }
    let writer = hold(store, &[]);
    refused(store, &["--shared"], 75);
    writer.let_go().expect(0);
    store.redlock(&["run", "--key", "X", "--shared", "--", "true"]).run().expect(0);
    assert!(store.status("X")["holders"][0].is_null());
}

pub fn a_reader_does_not_overtake_a_writer(store: &Store) {
    let reader = hold(store, &["--shared"]);
    let writer = store.wait_in_line("X", "writer", &[]);
    store.await_waiters("X", 1);
    refused(store, &["--shared"], 75);
    let later = store.wait_in_line("X", "reader", &["--shared"]);
    store.await_waiters("X", 2);
    reader.let_go().expect(0);
    writer.finish().expect(0);
    later.finish().expect(0);
    assert_eq!(store.order(), ["writer", "reader"]);
}

/// Two readers behind a writer, a writer behind them. The reader right before that one leaves first.
pub fn readers_in_a_row_are_let_in_together(store: &Store) {
    let folder = store.folder.path("").display().to_string();
    let stay = "cd \"$0\"; touch $1.in; until [ -e $1.out ]; do sleep 0.01; done; echo $1 >> order";
    let writer = hold(store, &[]);
    let mut readers = Vec::new();
    for (place, reader) in ["one", "two"].into_iter().enumerate() {
        let job = ["run", "--key", "X", "--shared", "--wait", "--", "sh", "-c", stay, &folder, reader];
        readers.push(store.redlock(&job).spawn());
        store.await_waiters("X", place + 1);
    }
    let last = store.wait_in_line("X", "writer", &[]);
    store.await_waiters("X", 3);
    writer.let_go().expect(0);
    let marked = |name: &str| store.folder.path(name).exists();
    eventually(Duration::from_secs(20), "both read", || marked("one.in") && marked("two.in"));
    for (reader, name) in readers.into_iter().zip(["one", "two"]).rev() {
        refused(store, &[], 75);
        fs::write(store.folder.path(name).with_extension("out"), "").expect("a mark");
        reader.finish().expect(0);
    }
    last.finish().expect(0);
    assert_eq!(store.order(), ["two", "one", "writer"]);
}

/// One gives it back, one dies: then nobody reads.
pub fn a_writer_waits_for_the_last_reader(store: &Store) {
    let ttl = if store.is_local() { "60s" } else { &store.ttl(1000) };
    let readers = [hold(store, &["--shared", "--ttl", ttl]), hold(store, &["--shared", "--ttl", ttl])];
    let writer = store.wait_in_line("X", "writer", &[]);
    store.await_waiters("X", 1);
    let [first, second] = readers;
    first.let_go().expect(0);
    refused(store, &[], 75);
    assert!(store.order().is_empty());
    let start = Instant::now();
    second.signal(Signal::SIGKILL);
    second.finish().expect(-9);
    writer.finish().expect(0);
    within(store.lease(Duration::from_secs(2)) + Duration::from_secs(2), start);
}

pub fn permits_are_handed_over(store: &Store) {
    let holders = [hold(store, &["--permits", "2"]), hold(store, &["--permits", "2"])];
    let status = store.status("X");
    assert_eq!((&status["kind"], &status["permits"]), (&"semaphore".into(), &2.into()));
    refused(store, &["--permits", "2"], 75);
    let mut waiters = Vec::new();
    for place in 1..=3 {
        waiters.push(store.wait_in_line("X", &place.to_string(), &["--permits", "2"]));
        store.await_waiters("X", place);
    }
    let [first, second] = holders;
    first.let_go().expect(0);
    for waiter in waiters {
        waiter.finish().expect(0);
    }
    assert_eq!(store.order(), ["1", "2", "3"]);
    second.let_go().expect(0);
}

pub fn one_kind_at_a_time(store: &Store) {
    let holder = hold(store, &["--permits", "2"]);
    for options in [&["--permits", "3"][..], &["--shared"], &[], &["--wait"], &["--permits", "3", "--wait"]] {
        assert!(refused(store, options, 78).contains("'X' is in use as a semaphore of 2; "), "{options:?}");
    }
    holder.let_go().expect(0);
    let holder = hold(store, &[]);
    assert!(refused(store, &["--permits", "2"], 78).contains("in use as a lock without permits"));
    holder.let_go().expect(0);
    store.redlock(&["run", "--key", "X", "--permits", "3", "--", "true"]).run().expect(0);
}

/// Only a waiter that is alive keeps readers from one another.
pub fn a_dead_writer_in_line_lets_readers_in(store: &Store) {
    let reader = hold(store, &["--shared", "--ttl", "10m"]);
    let writer = store.redlock(&["run", "--key", "X", "--wait", "--", "true"]).spawn();
    store.await_waiters("X", 1);
    refused(store, &["--shared"], 75);
    writer.signal(Signal::SIGKILL);
    // Redis forgets a queue about which nobody asks after a minute.
    let limit = slowed(20_000).min(Duration::from_secs(50));
    eventually(limit, "a reader beside the other", || {
        store.redlock(&["run", "--key", "X", "--shared", "--", "true"]).run().code() == 0
    });
    reader.let_go().expect(0);
}

pub fn a_shared_lock_is_broken_for_all(store: &Store) {
    let ttl = store.ttl(2000);
    let readers = [hold(store, &["--shared", "--ttl", &ttl]), hold(store, &["--shared", "--ttl", &ttl])];
    store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    for reader in readers {
        let told = reader.finish().expect(79);
        assert!(told.line().contains("it was broken with `redlock break`"), "{told:?}");
    }
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// It hears of who broke its lock, and the other one of nothing.
pub fn one_of_two_readers_is_broken(store: &Store) {
    let other = hold(store, &["--shared"]);
    let token = store.folder.path("token");
    let job = "echo $REDLOCK_TOKEN > \"$0\"; exec cat";
    let ttl = store.ttl(2000);
    let args = ["run", "--key", "X", "--shared", "--ttl", &ttl, "--", "sh", "-c", job];
    let mut reader =
        store.redlock(&[&args[..], &[&token.display().to_string()]].concat()).open_stdin().spawn();
    let mut text = String::new();
    reader.lives_until("its owner token", || {
        text = std::fs::read_to_string(&token).unwrap_or_default();
        text.ends_with('\n')
    });
    store.redlock(&["break", "--key", "X", "--yes", "--token", text.trim()]).run().expect(0);
    let told = reader.finish().expect(79);
    assert!(told.line().contains("it was broken with `redlock break`"), "{told:?}");
    other.let_go().expect(0);
}

pub fn a_permit_kept_by_min_hold(store: &Store) {
    let min_hold = ttl(2000);
    let ask = ["run", "--key", "X", "--permits", "1", "--min-hold", &min_hold, "--", "true"];
    store.redlock(&ask).run().expect(0);
    refused(store, &["--permits", "1"], 75);
    let waiter = store.wait_in_line("X", "served", &["--permits", "1"]);
    waiter.finish().expect(0);
}

pub fn by_hand(store: &Store) {
    let take = || {
        let taken =
            store.redlock(&["acquire", "--key", "X", "--permits", "2", "--ttl", "60s"]).run().expect(0);
        taken.stdout.trim().to_owned()
    };
    let tokens = [take(), take()];
    store.redlock(&["acquire", "--key", "X", "--permits", "2"]).run().expect(75);
    let call = |command: &str, token: &str, code| {
        store.redlock(&[command, "--key", "X", "--token", token]).run().expect(code);
    };
    for token in &tokens {
        call("check", token, 0);
        call("renew", token, 0);
    }
    call("release", &tokens[0], 0);
    call("release", &tokens[0], 1);
    call("check", &tokens[0], 1);
    call("check", &tokens[1], 0);
    let again = take();
    for token in [&tokens[1], &again] {
        call("release", token, 0);
    }
    assert!(store.status("X")["holders"][0].is_null());
}

/// It would wait for itself.
pub fn a_writer_inside_readers_is_refused(store: &Store) {
    let program = env!("CARGO_BIN_EXE_redlock");
    let inside = |outer: &[&str], inner: &[&str]| {
        let job =
            [&["--", program, "run", "--key", "X", "--wait"][..], inner, &["--", "echo", "ran"]].concat();
        store.redlock(&[&["run", "--key", "X"][..], outer, &job].concat()).run()
    };
    let refused = inside(&["--shared"], &[]).expect(78);
    assert!(refused.line().contains("shared"), "{refused:?}");
    inside(&["--permits", "2"], &["--permits", "3"]).expect(78);
    for (outer, inner) in [
        (&["--shared"][..], &["--shared"][..]),
        (&[], &["--shared"]),
        (&["--permits", "2"], &["--permits", "2"]),
    ] {
        assert_eq!(inside(outer, inner).expect(0).stdout, "ran\n");
    }
}
