//! etcd: a member alone, or a cluster of three.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::certificates::Papers;
use super::network::Network;
use super::port::free_port;
use super::{Folder, eventually, python};

/// The members of a cluster, of a test's own.
pub struct Etcd {
    pub members: Vec<Member>,
    /// Where each member is a host of its own.
    network: Option<Network>,
    papers: Option<Papers>,
    _folder: Folder,
}

/// One of them.
pub struct Member {
    child: Child,
    pub port: u16,
    /// With the port.
    pub address: String,
    args: Vec<String>,
    log: PathBuf,
}

impl Etcd {
    pub fn start() -> Etcd {
        Etcd::of(1, None, None)
    }

    pub fn three() -> Etcd {
        Etcd::of(3, None, None)
    }

    /// So many members, each on a host that can be cut off, as can the next host, which is free.
    pub fn on_hosts(count: usize) -> Etcd {
        Etcd::of(count, None, Some(Network::of(count + 1)))
    }

    /// Shows this certificate, and wants one of the same authority from everybody.
    pub fn with_tls(papers: &Papers) -> Etcd {
        Etcd::of(1, Some(papers.clone()), None)
    }

    fn of(count: usize, papers: Option<Papers>, network: Option<Network>) -> Etcd {
        let etcd = Etcd::unready(count, papers, network);
        eventually(Duration::from_secs(60), "etcd answers", || etcd.is_ready());
        etcd
    }

    fn unready(count: usize, papers: Option<Papers>, network: Option<Network>) -> Etcd {
        let folder = Folder::new();
        let ports: Vec<[u16; 2]> = (0..count).map(|_| [free_port(), free_port()]).collect();
        let host =
            |number| network.as_ref().map_or("127.0.0.1".to_owned(), |network| network.address(number));
        let cluster: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(number, [_, peer])| format!("m{number}=http://{}:{peer}", host(number)))
            .collect();
        let cluster = cluster.join(",");
        let scheme = if papers.is_some() { "https" } else { "http" };
        let members = ports.iter().enumerate().map(|(number, [port, peer])| {
            let address = format!("{}:{port}", host(number));
            let (client, peer) = (format!("{scheme}://{address}"), format!("http://{}:{peer}", host(number)));
            let data = folder.path(&format!("data{number}")).display().to_string();
            let mut args = network.as_ref().map(|network| network.on(number)).unwrap_or_default();
            args.extend([
                "etcd".to_owned(),
                format!("--name=m{number}"),
                format!("--data-dir={data}"),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster={cluster}"),
                // A machine that is slow for a while is not to choose a new leader.
                "--heartbeat-interval=100".to_owned(),
                "--election-timeout=1000".to_owned(),
                "--logger=zap".to_owned(),
                // A disk that others keep busy is not to make a leader late. No test takes the machine's power away.
                "--unsafe-no-fsync".to_owned(),
            ]);
            if let Some(papers) = &papers {
                args.push(format!("--cert-file={}", papers.cert.display()));
                args.push(format!("--key-file={}", papers.key.display()));
                args.push(format!("--trusted-ca-file={}", papers.ca.display()));
                args.push("--client-cert-auth".to_owned());
            }
            let log = folder.path(&format!("log{number}"));
            Member { child: serve(&args, &log), port: *port, address, args, log }
        });
        Etcd { members: members.collect(), network, papers, _folder: folder }
    }

    /// Whom it talks to is not what is tested.
    fn is_ready(&self) -> bool {
        match &self.papers {
            None => self.ctl(&["get", "nothing"]).0,
            Some(_) => self.members.iter().all(|member| {
                let log = std::fs::read_to_string(&member.log).unwrap_or_default();
                log.contains("serving client traffic")
            }),
        }
    }

    /// As `--server` has it.
    pub fn url(&self) -> String {
        let scheme = if self.papers.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.endpoints())
    }

    pub fn endpoints(&self) -> String {
        self.members.iter().map(|member| member.address.as_str()).collect::<Vec<_>>().join(",")
    }

    /// What the program etcdctl says to these words, and whether it went well.
    pub fn ctl(&self, args: &[&str]) -> (bool, String) {
        let output = self.etcdctl(args).output().expect("etcdctl is installed; tests/run does that");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// The program etcdctl.
    pub fn etcdctl(&self, args: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", self.endpoints());
        if let Some(papers) = &self.papers {
            command.env("ETCDCTL_CACERT", &papers.ca).env("ETCDCTL_CERT", &papers.cert);
            command.env("ETCDCTL_KEY", &papers.key);
        }
        command.args(args);
        // SAFETY: the closure makes one system call.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        command
    }

    /// All keys below the prefix of this URL are deleted, and their leases end.
    pub fn empty(&self, url: &str) {
        let prefix = format!("{}/", url.rsplit('/').next().expect("a prefix"));
        let (_, found) = self.ctl(&["get", "--prefix", &prefix, "--write-out=json"]);
        let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
        let leases = found["kvs"].as_array().into_iter().flatten().filter_map(|kv| kv["lease"].as_i64());
        for lease in leases {
            self.ctl(&["lease", "revoke", &format!("{lease:x}")]);
        }
        self.ctl(&["del", "--prefix", &prefix]);
    }

    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("hosts of their own")
    }

    /// The number of the member that leads the others.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually(Duration::from_secs(60), "a leader", || {
            leader = self.members.iter().position(|member| {
                let mut command = self.etcdctl(&["endpoint", "status", "--write-out=json"]);
                command.env("ETCDCTL_ENDPOINTS", &member.address);
                let status = command.output().expect("etcdctl").stdout;
                let status: serde_json::Value = serde_json::from_slice(&status).unwrap_or_default();
                let status = &status[0]["Status"];
                status["leader"].is_u64() && status["leader"] == status["header"]["member_id"]
            });
            leader.is_some()
        });
        leader.expect("just seen")
    }
}

impl Member {
    pub fn pause(&self) {
        super::program::pause(self.child.id() as i32);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("the death of etcd");
    }

    /// Starts it anew with its data.
    pub fn restart(&mut self) {
        self.child = serve(&self.args, &self.log);
    }

    /// How many requests of this kind it has had.
    pub fn requests(&self, method: &str) -> u32 {
        const COUNT: &str = r#"import sys, urllib.request
lines = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics").read().decode().splitlines()
kind = f'grpc_server_started_total{{grpc_method="{sys.argv[2]}",grpc_service="etcdserverpb.'
print(*(line.split()[-1] for line in lines if line.startswith(kind)))"#;
        let counted = python(COUNT).args([&self.address, method]).output().expect("Python");
        String::from_utf8_lossy(&counted.stdout).trim().parse().expect("a number")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("a signal to etcd");
    }
}

fn serve(args: &[String], log: &std::path::Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(log).expect("a log");
    let mut command = Command::new(&args[0]);
    command.args(&args[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // SAFETY: the closure makes one system call.
    unsafe {
        // The end of the test's thread is the end of its servers.
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    let child = command.spawn().expect("etcd is installed; tests/run does that");
    first_of_all(child.id());
    child
}

/// Lets a member run before the tests, where this user may: a leader that gets no processor for a second is replaced, and
/// its clients see errors that no test asked for.
fn first_of_all(pid: u32) {
    const NICENESS: &str = "-10";
    let pid = pid.to_string();
    let _ = Command::new("renice")
        .args(["-n", NICENESS, "-p", &pid])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // In a session of its own a process competes as a group, sched(7).
    let _ = std::fs::write(format!("/proc/{pid}/autogroup"), NICENESS);
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
