//! ZooKeeper: a server alone, or an ensemble of three.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::certificates::Papers;
use super::network::Network;
use super::port::free_port;
use super::proxy::Proxy;
use super::{Folder, eventually};

/// The servers of an ensemble.
pub struct ZooKeeper {
    pub servers: Vec<Server>,
    /// From the first server to the ports on which the others lead, where a test wants to cut it off.
    pub lines_to_leader: Vec<Proxy>,
    /// Where each server is a host of its own.
    network: Option<Network>,
    is_encrypted: bool,
    _folder: Folder,
}

/// One of them: a JVM.
pub struct Server {
    child: Child,
    pub port: u16,
    /// With the port.
    pub address: String,
    /// The beginning of its command line.
    prefix: Vec<String>,
    config: PathBuf,
    log: PathBuf,
}

/// What is different from most tests.
#[derive(Default)]
pub struct Settings<'a> {
    /// Of its configuration.
    pub lines: &'a str,
    /// Of the first server only.
    pub first_lines: &'a str,
    /// The first server reaches the leader through a proxy.
    pub has_lines: bool,
    /// Each server is a host of its own, which can be cut off.
    pub has_network: bool,
    /// Speaks TLS only, shows this certificate, and wants one of the same authority from everybody.
    pub papers: Option<&'a Papers>,
}

/// Where Debian has its classes.
const FOLDER: &str = "/usr/share/java";
const JARS: [&str; 14] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
    "metrics-core",
    "snappy-java",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
];
/// Sessions of a second and more; signs of life twice a tick. A machine that is slow for a while is not to choose a new
/// leader.
const CONFIG: &str = "tickTime=500\ninitLimit=40\nsyncLimit=10\nminSessionTimeout=1000\nmaxSessionTimeout=7200000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n";

impl ZooKeeper {
    pub fn start() -> ZooKeeper {
        ZooKeeper::with(1, &Settings::default())
    }

    pub fn three() -> ZooKeeper {
        ZooKeeper::with(3, &Settings::default())
    }

    /// So many servers, each on a host that can be cut off, as can the next host, which is free.
    pub fn on_hosts(count: usize) -> ZooKeeper {
        ZooKeeper::with(count, &Settings { has_network: true, ..Settings::default() })
    }

    /// Three servers, of which the first one follows another and reaches it through `lines_to_leader`.
    pub fn with_a_follower_to_cut_off() -> ZooKeeper {
        loop {
            let zookeeper = ZooKeeper::with(3, &Settings { has_lines: true, ..Settings::default() });
            if zookeeper.leader() != 0 {
                return zookeeper;
            }
        }
    }

    pub fn with(count: usize, settings: &Settings) -> ZooKeeper {
        let folder = Folder::new();
        let network = settings.has_network.then(|| Network::of(count + 1));
        let host =
            |number| network.as_ref().map_or("127.0.0.1".to_owned(), |network| network.address(number));
        let ports: Vec<[u16; 3]> = (0..count).map(|_| [free_port(), free_port(), free_port()]).collect();
        let lines = ports.iter().skip(1).filter(|_| settings.has_lines).map(|[_, peer, _]| Proxy::to(*peer));
        let lines_to_leader: Vec<Proxy> = lines.collect();
        let ensemble = |of: usize| -> String {
            let servers = ports.iter().enumerate().filter(|_| count > 1);
            let line = |(number, [_, peer, election]): (usize, &[u16; 3])| {
                let proxy = lines_to_leader.get(number.wrapping_sub(1)).filter(|_| of == 0);
                let peer = proxy.map_or(*peer, |proxy| proxy.port);
                format!("server.{}={}:{peer}:{election}\n", number + 1, host(number))
            };
            servers.map(line).collect()
        };
        let start = |(number, [port, ..]): (usize, &[u16; 3])| {
            let data = folder.path(&format!("data{number}"));
            fs::create_dir_all(&data).expect("a folder");
            fs::write(data.join("myid"), format!("{}\n", number + 1)).expect("its number");
            let port_line = match settings.papers {
                None => format!("clientPort={port}\n"),
                Some(papers) => format!("secureClientPort={port}\n{}", encrypted(&folder, papers)),
            };
            let config = folder.path(&format!("config{number}"));
            let lines = settings.lines.to_owned() + if number == 0 { settings.first_lines } else { "" };
            let text = format!("{CONFIG}dataDir={}\n{port_line}{}{lines}", data.display(), ensemble(number));
            fs::write(&config, text).expect("a configuration");
            let log = folder.path(&format!("log{number}"));
            let prefix = network.as_ref().map(|network| network.on(number)).unwrap_or_default();
            let (child, address) = (serve(&prefix, &config, &log), format!("{}:{port}", host(number)));
            Server { child, port: *port, address, prefix, config, log }
        };
        let servers = ports.iter().enumerate().map(start).collect();
        let is_encrypted = settings.papers.is_some();
        let zookeeper = ZooKeeper { servers, lines_to_leader, network, is_encrypted, _folder: folder };
        eventually(Duration::from_secs(60), "ZooKeeper answers", || {
            zookeeper.servers.iter().all(|server| server.is_ready(zookeeper.is_encrypted))
        });
        if !zookeeper.is_encrypted {
            eventually(Duration::from_secs(60), "ZooKeeper opens a session", || zookeeper.opens_a_session());
        }
        zookeeper
    }

    /// The first session makes a young server load what it takes, for longer than a client waits on a busy machine.
    fn opens_a_session(&self) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
        command
            .args(["status", "-S", &format!("zk://{}", self.hosts()), "nothing"])
            .env("HOME", "/nonexistent");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("redlock").success()
    }

    /// As `--server` has it, with a chroot that nobody used before.
    pub fn url(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let scheme = if self.is_encrypted { "zks" } else { "zk" };
        format!("{scheme}://{}/t{}", self.hosts(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub fn hosts(&self) -> String {
        self.servers.iter().map(|server| server.address.as_str()).collect::<Vec<_>>().join(",")
    }

    /// All nodes below the chroot of this URL are deleted.
    pub fn empty(&self, url: &str) {
        let chroot = url.rsplit('/').next().expect("a chroot");
        let script = "import sys; from kazoo.client import KazooClient; zk = KazooClient(sys.argv[1]); zk.start(30); zk.delete(sys.argv[2], recursive=True); zk.stop()";
        assert!(
            python(script).args([self.hosts(), format!("/{chroot}")]).status().expect("Python").success()
        );
    }

    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("hosts of their own")
    }

    /// The number of the server that leads the others.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually(Duration::from_secs(60), "a leader", || {
            leader = self.servers.iter().position(|server| server.status().contains("Mode: leader"));
            leader.is_some()
        });
        leader.expect("just seen")
    }
}

impl Server {
    pub fn pause(&self) {
        super::program::pause(self.child.id() as i32);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("the death of ZooKeeper");
    }

    /// Starts it anew with its data.
    pub fn restart(&mut self) {
        self.child = serve(&self.prefix, &self.config, &self.log);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("a signal to ZooKeeper");
    }

    fn is_ready(&self, is_encrypted: bool) -> bool {
        match is_encrypted {
            true => self.refuses_what_is_not_encrypted().is_ok(),
            false => self.status().contains("Mode: "),
        }
    }

    /// Waits for the answer, for which it loads all that TLS takes: its first connection would wait for that.
    fn refuses_what_is_not_encrypted(&self) -> std::io::Result<usize> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"no TLS\n")?;
        stream.read(&mut [0; 64])
    }

    /// What it says about itself.
    pub fn status(&self) -> String {
        let mut text = String::new();
        let ask = || -> std::io::Result<TcpStream> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"srvr")?;
            Ok(stream)
        };
        let _ = ask().and_then(|mut stream| stream.read_to_string(&mut text));
        text
    }
}

/// Debian's Python, which has kazoo.
pub fn python(script: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]);
    command
}

/// The lines for a server with a certificate.
fn encrypted(folder: &Folder, papers: &Papers) -> String {
    let store = folder.path("store.pem");
    let [cert, key] = [&papers.cert, &papers.key].map(|path| fs::read_to_string(path).expect("a file"));
    fs::write(&store, cert + &key).expect("a key store");
    format!(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.trustStore.location={}\nssl.trustStore.type=PEM\n",
        store.display(),
        papers.ca.display()
    )
}

fn serve(prefix: &[String], config: &Path, log: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(log).expect("a log");
    let jars = JARS.map(|name| format!("{FOLDER}/{name}.jar")).join(":");
    let line = [prefix, &["java".to_owned()]].concat();
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    command.args(["-Xmx96m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
    // What outlives a death of the program need not outlive one of the machine.
    command.args(["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64"]);
    // Folders without children go soon: somebody may look at them at that moment.
    command.arg("-Dznode.container.checkIntervalMs=500");
    command.args(["-cp", &jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]).arg(config);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    // SAFETY: the closure makes one system call.
    unsafe {
        // The end of the test's thread is the end of its servers.
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    command.spawn().expect("Java and ZooKeeper are installed; tests/run does that")
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
