//! What `run` says when its command has ended and left processes behind, and there is more to say.

use std::fs::{self, File};
use std::time::Duration;

use crate::harness::{Fault, Proxy, Redis, Redlock, Running, Store, await_file, eventually};

/// A command that ends with 3 when it is let go, and leaves a process behind that lives as long as the test.
fn leaving(store: &Store, mut run: Redlock) -> Running {
    let folder = store.folder.path("").display().to_string();
    let script = r#"cd "$0"; (setsid sh -c 'touch begun; while [ -e begun ]; do sleep 0.05; done' >/dev/null 2>&1 &)
        read -r _; exit 3"#;
    run.command.args(["--", "sh", "-c", script, &folder]);
    run.command.stderr(File::create(store.folder.path("stderr")).expect("a file"));
    let run = run.open_stdin().spawn();
    await_file(&store.folder.path("begun"));
    run
}

fn said(store: &Store) -> String {
    fs::read_to_string(store.folder.path("stderr")).expect("what it said")
}

#[test]
fn a_lock_that_could_not_be_given_back() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.port);
    let mut store = Store::of(redis);
    store.url = proxy.url();
    let run = leaving(&store, store.redlock(&["run", "-k", "X"]));
    proxy.set(Fault::Stall);
    run.let_go().expect(3);
    let said = said(&store);
    assert!(said.contains("'sh' left processes behind (pid "), "{said}");
    assert!(said.contains(", sh), and redlock could not release 'X': cannot reach redis://"), "{said}");
    assert!(said.trim_end().ends_with("; the lease ends within 30s"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Nothing of redlock's own is there to be given back.
#[test]
fn a_lock_taken_by_hand_that_was_lost() {
    let store = Store::redis();
    let acquired = store.redlock(&["acquire", "-k", "X"]).run().expect(0);
    let token = acquired.stdout.trim();
    let run = store.redlock(&["run", "-k", "X", "--ttl", "1s", "--on-lost", "continue"]);
    let run = leaving(&store, run.env("REDLOCK_KEY", "X").env("REDLOCK_TOKEN", token));
    store.redlock(&["release", "-k", "X", "--token", token]).run().expect(0);
    eventually(Duration::from_secs(10), "the loss", || said(&store).contains("lost 'X'"));
    run.let_go().expect(79);
    let said = said(&store);
    assert!(said.contains("'sh' left processes behind (pid "), "{said}");
    assert!(said.contains(", sh); they run on without 'X'"), "{said}");
    assert!(!said.contains("gave"), "{said}");
}
