//! Redis behind Sentinels.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::certificates::Papers;
use super::port::free_port;
use super::redis::Redis;
use super::{Folder, eventually};

/// Redis behind Sentinel, of a test's own: a master, a replica, and three Sentinels that call it `mine`.
pub struct Sentinel {
    pub servers: Vec<Redis>,
    sentinels: Vec<Watcher>,
    /// Of the Sentinels.
    password: Option<&'static str>,
    /// All of them speak TLS only.
    papers: Option<Papers>,
    _folder: Folder,
}

struct Watcher {
    child: Child,
    port: u16,
}

/// Nothing is sent in plain, to a replica neither.
const TLS_BETWEEN: [&str; 4] = ["--tls-replication", "yes", "--tls-auth-clients", "no"];

impl Sentinel {
    pub fn start() -> Sentinel {
        Sentinel::with(None)
    }

    /// The Sentinels want this password.
    pub fn with(password: Option<&'static str>) -> Sentinel {
        Sentinel::set_up(password, None)
    }

    /// Sentinels and servers show this certificate, and speak TLS only.
    pub fn with_tls(papers: &Papers) -> Sentinel {
        Sentinel::set_up(None, Some(papers.clone()))
    }

    fn set_up(password: Option<&'static str>, papers: Option<Papers>) -> Sentinel {
        let server = |options: &[&str]| match &papers {
            Some(papers) => Redis::with_tls(papers, papers, &[&TLS_BETWEEN[..], options].concat()),
            None => Redis::with(options),
        };
        let master = server(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port.to_string();
        let replica = server(&["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port]);
        eventually(Duration::from_secs(20), "the replica has the data", || {
            replica.cli(&["info", "replication"]).contains("master_link_status:up")
        });
        let folder = Folder::new();
        let watch = |index: usize| {
            let (own, file) = (free_port(), folder.path(&format!("sentinel{index}.conf")));
            let login = password.map(|word| format!("requirepass {word}\nsentinel sentinel-pass {word}\n"));
            let login = login.unwrap_or_default();
            let door = match &papers {
                Some(Papers { ca, cert, key }) => format!(
                    "port 0\ntls-port {own}\ntls-replication yes\ntls-auth-clients no\ntls-cert-file {:?}\n\
                     tls-key-file {:?}\ntls-ca-cert-file {:?}",
                    cert, key, ca
                ),
                None => format!("port {own}"),
            };
            let config = format!(
                "{door}\nbind 127.0.0.1\nsentinel monitor mine 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds mine 500\nsentinel failover-timeout mine 2000\n{login}"
            );
            fs::write(&file, config).expect("a configuration file");
            let mut command = Command::new("redis-server");
            command.arg(&file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: the closure makes one system call.
            unsafe {
                command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
            }
            Watcher { child: command.spawn().expect("redis-server is installed"), port: own }
        };
        let sentinels = (0..3).map(watch).collect();
        let servers = vec![master, replica];
        let sentinel = Sentinel { servers, sentinels, password, papers, _folder: folder };
        for index in 0..3 {
            eventually(Duration::from_secs(20), "the Sentinels know each other and the replica", || {
                let known = sentinel.ask(index, &["sentinel", "master", "mine"]);
                let says = |name: &str| known.lines().skip_while(|line| *line != name).nth(1);
                says("num-other-sentinels") == Some("2") && says("num-slaves") == Some("1")
            });
        }
        sentinel
    }

    pub fn url(&self) -> String {
        self.url_of("mine")
    }

    pub fn url_of(&self, master: &str) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        let scheme = if self.papers.is_some() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{master}", hosts.join(","))
    }

    /// The server that the Sentinels call the master.
    pub fn master(&mut self) -> &mut Redis {
        let port = self.named();
        self.servers.iter_mut().find(|server| server.port == port).expect("the master is one of the servers")
    }

    /// Waits until another is the master than the one on this port.
    pub fn await_failover(&self, from: u16) {
        eventually(Duration::from_secs(30), "a failover", || self.named() != from);
        eventually(Duration::from_secs(30), "the new master says so", || {
            let port = self.named();
            let new = self.servers.iter().find(|server| server.port == port);
            new.is_some_and(|new| new.cli(&["role"]).starts_with("master"))
        });
    }

    /// Kills some of the Sentinels.
    pub fn kill_sentinels(&mut self, count: usize) {
        (0..count).for_each(|index| self.kill_sentinel(index));
    }

    pub fn kill_sentinel(&mut self, index: usize) {
        let one = &mut self.sentinels[index];
        let _ = one.child.kill();
        let _ = one.child.wait();
    }

    /// From now on this Sentinel has these rules for everybody who comes.
    pub fn refuse(&self, index: usize, rules: &[&str]) {
        let answer = self.ask(index, &[&["acl", "setuser", "default"][..], rules].concat());
        assert_eq!(answer.trim_end(), "OK");
    }

    pub fn pause_sentinel(&self, index: usize) {
        super::program::pause(self.sentinels[index].child.id() as i32);
    }

    pub fn resume_sentinel(&self, index: usize) {
        self.signal(index, Signal::SIGCONT);
    }

    fn signal(&self, index: usize, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(self.sentinels[index].child.id() as i32);
        nix::sys::signal::kill(pid, signal).expect("a signal to a Sentinel");
    }

    fn named(&self) -> u16 {
        let answer = self.ask(2, &["sentinel", "get-master-addr-by-name", "mine"]);
        answer.lines().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0)
    }

    fn ask(&self, index: usize, args: &[&str]) -> String {
        let port = self.sentinels[index].port.to_string();
        let mut command = Command::new("redis-cli");
        command.env("REDISCLI_AUTH", self.password.unwrap_or_default());
        if self.password.is_none() {
            command.env_remove("REDISCLI_AUTH");
        }
        if self.papers.is_some() {
            command.args(["--tls", "--insecure"]);
        }
        let output = command.arg("-p").arg(port).args(args).output();
        String::from_utf8_lossy(&output.expect("redis-cli is installed").stdout).into_owned()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill_sentinels(3);
    }
}
