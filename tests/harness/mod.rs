//! What all test binaries share: servers, the program, waiting for events, the witness.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

mod cluster;
mod program;
mod proxy;
mod pty;
mod redis;
mod sentinel;
mod witness;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

pub use cluster::Cluster;
pub use program::{Finished, Redlock, Running, await_file, children, is_alive, pid_in, with_default_signals};
pub use proxy::{Fault, Proxy};
pub use pty::Pty;
pub use redis::{Redis, free_port};
pub use sentinel::Sentinel;
pub use witness::{Rules, Witness};

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
    pub fleet: Fleet,
}

/// Servers that are one store together.
pub enum Fleet {
    None,
    Sentinel(Sentinel),
    Cluster(Cluster),
}

impl Store {
    pub fn sentinel() -> Store {
        let sentinel = Sentinel::start();
        Store { url: sentinel.url(), fleet: Fleet::Sentinel(sentinel), ..Store::local() }
    }

    pub fn cluster() -> Store {
        let cluster = Cluster::start();
        Store { url: cluster.url(), fleet: Fleet::Cluster(cluster), ..Store::local() }
    }

    pub fn redis() -> Store {
        let redis = Redis::start();
        Store { url: redis.url(), redis: Some(redis), folder: Folder::new(), fleet: Fleet::None }
    }

    pub fn local() -> Store {
        let folder = Folder::new();
        let url = format!("local:{}", folder.path("locks.db").display());
        Store { url, redis: None, folder, fleet: Fleet::None }
    }

    pub fn is_local(&self) -> bool {
        self.url.starts_with("local:")
    }

    /// The program, with this store as its server.
    pub fn redlock(&self, args: &[&str]) -> Redlock {
        Redlock::new(args).server(&self.url)
    }

    /// A job that holds the key until it is let go.
    pub fn hold(&self, key: &str, options: &[&str]) -> Running {
        let args = [&["run", "--key", key][..], options, &["--", "cat"]].concat();
        let running = self.redlock(&args).open_stdin().spawn();
        let pid = u64::try_from(running.pid()).expect("a pid");
        eventually(Duration::from_secs(20), &format!("the lock {key}"), || {
            self.status(key)["holders"][0]["pid"] == pid
        });
        running
    }

    /// A job that waits for the key and then adds a line to the file "order".
    pub fn wait_in_line(&self, key: &str, line: &str, options: &[&str]) -> Running {
        let order = self.folder.path("order");
        let job = ["--", "sh", "-c", "echo \"$0\" >> \"$1\"", line, order.to_str().expect("a path")];
        self.redlock(&[&["run", "--key", key, "--wait"][..], options, &job].concat()).spawn()
    }

    /// The lines of the file "order".
    pub fn order(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.folder.path("order")).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// The store loses all that it knows.
    pub fn lose_everything(&self) {
        let fleet = match &self.fleet {
            Fleet::None => &[],
            Fleet::Sentinel(sentinel) => &sentinel.servers[..],
            Fleet::Cluster(cluster) => &cluster.servers,
        };
        for server in fleet {
            // The replicas refuse, and follow.
            server.cli(&["flushall"]);
        }
        match &self.redis {
            Some(redis) => assert_eq!(redis.cli(&["flushall"]), "OK"),
            None => ["", "-wal", "-shm", "-journal"].iter().for_each(|end| {
                let _ = fs::remove_file(self.folder.path(&format!("locks.db{end}")));
            }),
        }
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
