use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Folder, eventually};

/// A Redis server of a test's own, on a free port of the loopback interface, without persistence unless
/// the arguments say otherwise.
pub struct Redis {
    child: Child,
    pub port: u16,
    folder: Folder,
    args: Vec<String>,
    /// A library that changes what the server sees of the system.
    preload: Option<PathBuf>,
}

impl Redis {
    pub fn start() -> Redis {
        Redis::with(&[])
    }

    pub fn with(args: &[&str]) -> Redis {
        Redis::serving(Folder::new(), args, None)
    }

    /// A server whose clock is this many seconds ahead.
    pub fn with_clock(ahead: i64, args: &[&str]) -> Redis {
        let folder = Folder::new();
        let library = super::clock::library(ahead, &folder);
        Redis::serving(folder, args, Some(library))
    }

    fn serving(folder: Folder, args: &[&str], preload: Option<PathBuf>) -> Redis {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        // Another test may take the port between the look and the start.
        for _ in 0..10 {
            let port = free_port();
            let mut child = serve(port, &folder, &args, preload.as_deref());
            if comes_up(&mut child, port) {
                return Redis { child, port, folder, args, preload };
            }
        }
        panic!("redis-server does not start; tests/run installs it");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What redis-cli prints for a command.
    pub fn cli(&self, args: &[&str]) -> String {
        cli(self.port, args)
    }

    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("the death of redis-server");
    }

    /// Starts the server anew on its port.
    pub fn restart(&mut self) {
        self.child = serve(self.port, &self.folder, &self.args, self.preload.as_deref());
        assert!(comes_up(&mut self.child, self.port), "redis-server does not come back");
    }

    /// How often each command was called: sent by a client, or called by a script.
    pub fn commandstats(&self) -> BTreeMap<String, u64> {
        let text = self.cli(&["info", "commandstats"]);
        let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        let calls =
            lines.filter_map(|(name, rest)| Some((name.to_owned(), rest.split(',').next()?.parse().ok()?)));
        calls.filter(|(name, _)| name != "info").collect()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("a signal to redis-server");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(port: u16, folder: &Folder, args: &[String], preload: Option<&Path>) -> Child {
    let mut command = Command::new("redis-server");
    command.envs(preload.map(|library| ("LD_PRELOAD", library)));
    command.arg("--port").arg(port.to_string()).arg("--bind").arg("127.0.0.1").arg("--save").arg("");
    command.arg("--dir").arg(folder.path("")).args(args).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the closure makes one system call.
    unsafe {
        // The end of the test's thread is the end of its servers.
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    command.spawn().expect("redis-server is installed; tests/run does that")
}

fn comes_up(child: &mut Child, port: u16) -> bool {
    let mut up = false;
    eventually(Duration::from_secs(20), "redis-server answers", || {
        // Any answer: with a password it is an error.
        let answer = cli(port, &["ping"]);
        up = answer.contains("PONG") || answer.contains("NOAUTH") || answer.contains("NOPERM");
        up || child.try_wait().expect("wait").is_some()
    });
    up
}

fn cli(port: u16, args: &[&str]) -> String {
    let output = Command::new("redis-cli").arg("-p").arg(port.to_string()).args(args).output();
    let output = output.expect("redis-cli is installed; tests/run does that");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A port on which nobody listens now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}
