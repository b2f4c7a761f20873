//! Hosts on a network of a test's own, each of which can be cut off.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

/// Hosts, and a switch that joins them and the test.
///
/// Each is a network namespace, which lasts as long as the process in it: with a test that is killed all of it ends.
pub struct Network {
    /// The third byte of its addresses.
    number: u8,
    switch: Namespace,
    hosts: Vec<Namespace>,
}

/// A process in a network namespace of its own.
struct Namespace(Child);

impl Network {
    pub fn of(count: usize) -> Network {
        let switch = Namespace::new();
        switch.ip("link add name bridge type bridge");
        switch.ip("link set bridge up");
        let number = link_to_test(&switch);
        let hosts = (0..count).map(|_| Namespace::new()).collect();
        let network = Network { number, switch, hosts };
        for (place, host) in network.hosts.iter().enumerate() {
            let (pid, port) = (host.0.id(), port_of(place));
            network.switch.ip(&format!("link add name {port} type veth peer name eth0 netns {pid}"));
            network.switch.ip(&format!("link set {port} master bridge up"));
            host.ip("link set lo up");
            host.ip(&format!("address add {}/24 dev eth0", network.address(place)));
            host.ip("link set eth0 up");
        }
        network
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> String {
        address(self.number, host + 1)
    }

    /// Where the hosts reach the test.
    pub fn test_address(&self) -> String {
        address(self.number, 254)
    }

    /// The beginning of a command line that runs on a host.
    pub fn on(&self, host: usize) -> Vec<String> {
        self.hosts[host].enter()
    }

    /// Nothing reaches this host any more, nor comes from it, and nobody is told.
    pub fn cut_off(&self, host: usize) {
        self.switch.ip(&format!("link set {} down", port_of(host)));
    }

    pub fn join(&self, host: usize) {
        self.switch.ip(&format!("link set {} up", port_of(host)));
    }

    /// The host reaches the test, and none of the other hosts.
    pub fn cut_off_from_others(&self, host: usize) {
        for other in (0..self.hosts.len()).filter(|other| *other != host) {
            self.hosts[host].ip(&format!("route add blackhole {}", self.address(other)));
        }
    }
}

fn port_of(host: usize) -> String {
    format!("port{host}")
}

/// Of the networks that RFC 2544 keeps for tests.
fn address(network: u8, host: usize) -> String {
    format!("198.18.{network}.{host}")
}

/// The number of the network: of all at this time it is the only one with that.
fn link_to_test(switch: &Namespace) -> u8 {
    let pid = switch.0.id();
    let mut numbers: Vec<u8> = (0..=u8::MAX).collect();
    fastrand::shuffle(&mut numbers);
    let is_free = |number: &u8| {
        let add = format!("link add name redlock{number} type veth peer name eth0 netns {pid}");
        succeeds(Command::new("ip").args(add.split(' ')).stderr(Stdio::null()))
    };
    let number = numbers.into_iter().find(is_free).expect("a network");
    switch.ip("link set eth0 master bridge up");
    for words in [format!("address add {}/24 dev", address(number, 254)), "link set up dev".to_owned()] {
        let interface = format!("redlock{number}");
        assert!(succeeds(Command::new("ip").args(words.split(' ')).arg(interface)), "ip {words}");
    }
    number
}

impl Namespace {
    fn new() -> Namespace {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: the closure makes one system call.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let mut process = command.spawn().expect("unshare");
        let stdout = process.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut String::new()).expect("a network namespace");
        Namespace(process)
    }

    fn enter(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.0.id())]
    }

    fn ip(&self, words: &str) {
        let enter = self.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg("ip").args(words.split(' '));
        assert!(succeeds(&mut command), "ip {words}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .status()
        .expect("iproute2 and util-linux are installed; tests/run does that")
        .success()
}
