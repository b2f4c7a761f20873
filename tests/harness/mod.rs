//! What all test binaries share: servers, the program, waiting for events, the witness.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

mod program;
mod proxy;
mod pty;
mod redis;
mod witness;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

pub use program::{Finished, Redlock, Running, await_file, children, is_alive, pid_in};
pub use proxy::{Fault, Proxy};
pub use pty::Pty;
pub use redis::Redis;
pub use witness::Witness;

/// Waits until `condition` holds; panics with `what` when it does not within `limit`.
pub fn eventually(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A folder of a test's own, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("redlock-test-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A store under test, started for it.
pub struct Store {
    pub url: String,
    pub redis: Option<Redis>,
    pub folder: Folder,
}

impl Store {
    pub fn redis() -> Store {
        let redis = Redis::start();
        Store { url: redis.url(), redis: Some(redis), folder: Folder::new() }
    }

    pub fn local() -> Store {
        let folder = Folder::new();
        Store { url: format!("local:{}", folder.path("locks.db").display()), redis: None, folder }
    }

    pub fn is_local(&self) -> bool {
        self.redis.is_none()
    }

    /// The program, with this store as its server.
    pub fn redlock(&self, args: &[&str]) -> Redlock {
        Redlock::new(args).server(&self.url)
    }

    /// The entry of a key in `status --json`.
    pub fn status(&self, key: &str) -> serde_json::Value {
        let output = self.redlock(&["status", "--json", key]).run();
        let locks: serde_json::Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        locks[0].clone()
    }

    /// How many wait for the key.
    pub fn waiters(&self, key: &str) -> usize {
        self.status(key)["waiters"].as_array().map_or(0, Vec::len)
    }

    pub fn await_waiters(&self, key: &str, count: usize) {
        eventually(Duration::from_secs(20), &format!("{count} waiters for {key}"), || {
            self.waiters(key) == count
        });
    }

    pub fn await_holder(&self, key: &str) {
        eventually(Duration::from_secs(20), &format!("a holder of {key}"), || {
            self.status(key)["holders"][0].is_object()
        });
    }
}
