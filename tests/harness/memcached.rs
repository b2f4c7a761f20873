//! A Memcached server of a test.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::port::free_port;
use super::{Folder, eventually};

/// A Memcached of a test's own, on a free port of the loopback interface.
pub struct Memcached {
    child: Child,
    pub port: u16,
    args: Vec<String>,
    folder: Folder,
}

/// Debian's package would start a service, so tests/run takes the program out of it.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/memcached");

impl Memcached {
    pub fn start() -> Memcached {
        Memcached::with(&[])
    }

    pub fn with(args: &[&str]) -> Memcached {
        let port = free_port();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let folder = Folder::new();
        let mut memcached = Memcached { child: serve(port, &args, &folder), port, args, folder };
        memcached.await_answer();
        memcached
    }

    fn await_answer(&mut self) {
        eventually(Duration::from_secs(20), "Memcached answers", || {
            let ended = self.child.try_wait().expect("wait");
            assert_eq!(ended, None, "Memcached does not come up");
            self.ask("version").is_ok_and(|answer| answer.starts_with("VERSION"))
        });
    }

    /// As `--server` has it.
    pub fn url(&self) -> String {
        format!("memcached://127.0.0.1:{}", self.port)
    }

    /// The first line of the answer to a command.
    pub fn ask(&self, command: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// How many ask for a lock again and again: they do not show in the store. Whoever was refused looks who holds the lock.
    pub fn waiters(&self, key: &str) -> usize {
        let log = fs::read_to_string(self.folder.path("log")).unwrap_or_default();
        let (set, get) = (format!("ms redlock:{key} "), format!("mg redlock:{key} "));
        // For each connection, whether its last request for the lock was refused.
        let mut refused = HashMap::new();
        for line in log.lines() {
            let Some((connection, request)) = line.strip_prefix('<').and_then(|line| line.split_once(' '))
            else {
                continue;
            };
            match request {
                "connection closed." => drop(refused.remove(connection)),
                _ if request.starts_with(&set) => {
                    refused.insert(connection, (request.ends_with(" ME"), false));
                }
                _ if request.starts_with(&get) => {
                    refused.entry(connection).and_modify(|(_, looked)| *looked = true);
                }
                _ => {}
            }
        }
        refused.values().filter(|asked_and_looked| **asked_and_looked == (true, true)).count()
    }

    /// Everything is forgotten.
    pub fn empty(&self) {
        assert_eq!(self.ask("flush_all").expect("an answer"), "OK");
    }

    pub fn pause(&self) {
        super::program::pause(self.child.id() as i32);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("the death of Memcached");
    }

    /// Starts it, empty, on its port.
    pub fn restart(&mut self) {
        self.child = serve(self.port, &self.args, &self.folder);
        self.await_answer();
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("a signal to Memcached");
    }
}

fn serve(port: u16, args: &[String], folder: &Folder) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.path("log")).expect("a log");
    let installed = if Path::new(UNPACKED).exists() { UNPACKED } else { "memcached" };
    let mut command = Command::new(installed);
    command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-vv", "-p", &port.to_string()]).args(args);
    if nix::unistd::geteuid().is_root() {
        // A change of user would clear the signal below: see prctl(2).
        command.args(["-u", "root"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // SAFETY: the closure makes one system call.
    unsafe {
        // The end of the test's thread is the end of its servers.
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    command.spawn().expect("Memcached is installed; tests/run does that")
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
