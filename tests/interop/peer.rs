//! The other lock libraries, as programs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::Signal;

use crate::harness::Redis;

/// Another implementation of locks in Redis.
pub struct Kind {
    /// What runs it; its small program is in `peers`. tests/run installs it.
    program: &'static str,
    script: Option<&'static str>,
    /// The key under which its lock `X` is in Redis.
    pub key: &'static str,
}

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/venv/bin/python");
const RSLOCK_PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/bin/rslock-peer");

pub const REDIS_PY: Kind = Kind { program: PYTHON, script: Some("redis_py.py"), key: "X" };
pub const PYTHON_REDIS_LOCK: Kind =
    Kind { program: PYTHON, script: Some("python_redis_lock.py"), key: "lock:X" };
pub const NODE_REDLOCK: Kind = Kind { program: "node", script: Some("node_redlock.js"), key: "X" };
pub const RSLOCK: Kind = Kind { program: RSLOCK_PEER, script: None, key: "X" };

/// A process of another implementation, which takes and releases its lock `X` when told.
pub struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Kind {
    pub fn start(&self, redis: &Redis, ttl_seconds: u32) -> Peer {
        self.start_on(std::slice::from_ref(redis), ttl_seconds)
    }

    /// With these servers as its quorum, if it knows one.
    pub fn start_on(&self, servers: &[Redis], ttl_seconds: u32) -> Peer {
        let ports: Vec<String> = servers.iter().map(|server| server.port.to_string()).collect();
        let mut command = Command::new(self.program);
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("NODE_PATH", "target/peers/node_modules");
        command.args(self.script.map(|script| format!("tests/interop/peers/{script}")));
        command.arg(ports.join(",")).arg("X").arg(ttl_seconds.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: the closure makes one system call.
        unsafe {
            // The end of the test's thread is the end of its peers.
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; tests/run installs it", self.program));
        let orders = child.stdin.take().expect("its stdin");
        let answers = BufReader::new(child.stdout.take().expect("its stdout"));
        Peer { child, orders, answers }
    }
}

impl Peer {
    /// Whether it got the lock; it does not wait.
    pub fn take(&mut self) -> bool {
        self.told("take\n")
    }

    /// Waits for the lock, if it can; one that cannot has no such order.
    pub fn wait(&mut self) -> bool {
        self.told("wait\n")
    }

    /// Whether it still held the lock, as far as it says.
    pub fn release(&mut self) -> bool {
        self.told("release\n")
    }

    fn told(&mut self, order: &str) -> bool {
        self.orders.write_all(order.as_bytes()).expect("an order");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("an answer");
        match answer.as_str() {
            "yes\n" => true,
            "no\n" => false,
            other => panic!("the peer says {other:?}; tests/run installs it"),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
