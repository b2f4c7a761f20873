//! `redlock wait` and `status --is-free`.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Redlock, Store, free_port, within};

#[test]
fn a_signal_ends_the_wait_at_once() {
    for store in [Store::local(), Store::redis()] {
        let holder = store.hold("X", &[]);
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let log = store.folder.path(&format!("{signal}.log"));
            let mut wait = store.redlock(&["wait", "X", "--log-file", log.to_str().expect("a path")]).spawn();
            wait.lives_until("it has seen the holder", || {
                fs::read_to_string(&log).unwrap_or_default().contains("lock_waiting")
            });
            let start = Instant::now();
            wait.signal(signal);
            wait.finish().expect(-(signal as i32));
            within(Duration::from_secs(1), start);
        }
        holder.let_go().expect(0);
    }
}

#[test]
fn a_store_that_does_not_answer() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let redlock = |args: &[&str]| Redlock::new(args).server(&url);
    let refused = redlock(&["status", "-q", "--is-free", "X"]).run().expect(69);
    assert!(refused.stdout.is_empty() && refused.line().contains("connection refused"), "{refused:?}");
    let start = Instant::now();
    redlock(&["wait", "X", "--timeout", "600ms"]).run().expect(69);
    assert!(start.elapsed() >= Duration::from_millis(600));
}

#[test]
fn without_a_key_nothing_is_asked() {
    let store = Store::local();
    for args in [&["wait"][..], &["wait", "--timeout", "1s"], &["status", "--is-free"]] {
        let refused = store.redlock(args).run().expect(64);
        assert!(refused.line().contains("the key is missing"), "{refused:?}");
    }
    store.redlock(&["wait", "X*", "--timeout", "1s"]).run().expect(0);
}

/// It is about the command of a `run`.
#[test]
fn the_timeout_of_a_file_is_not_that_of_a_wait() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let file = store.folder.path("config.toml");
    fs::write(&file, "timeout = 0\n").expect("a file");
    let log = store.folder.path("log");
    let [file, path] = [&file, &log].map(|path| path.to_str().expect("a path"));
    let mut wait = store.redlock(&["wait", "-q", "X", "--config", file, "--log-file", path]).spawn();
    wait.lives_until("it waits", || fs::read_to_string(&log).unwrap_or_default().contains("lock_waiting"));
    holder.let_go().expect(0);
    wait.finish().expect(0);
}
