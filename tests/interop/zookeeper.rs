//! redlock, kazoo and Curator on one path.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{
    Redlock, Running, Store, ZooKeeper, eventually, in_ms, is_alive, namespaces, pid_in, slowed,
};

/// The locks of another library, as a program.
#[derive(Clone, Copy)]
enum Kind {
    Kazoo,
    Curator,
}

const KAZOO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peers/kazoo_lock.py");
const CURATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peers/CuratorLock.java");
/// What it takes to run Curator, from Debian's folder.
const JARS: [&str; 9] = [
    "curator-client",
    "curator-framework",
    "curator-recipes",
    "zookeeper",
    "zookeeper-jute",
    "guava",
    "failureaccess",
    "slf4j-api",
    "slf4j-nop",
];
/// A JVM that compiles its program takes seconds to come.
const STARTED: Duration = Duration::from_secs(60);

impl Kind {
    fn command(self) -> Command {
        match self {
            Kind::Kazoo => {
                let mut command = Command::new("/usr/bin/python3");
                command.arg(KAZOO);
                command
            }
            Kind::Curator => {
                let jars = JARS.map(|name| format!("/usr/share/java/{name}.jar")).join(":");
                let mut command = Command::new("java");
                command.args([
                    "-Xmx96m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    &jars,
                    CURATOR,
                ]);
                command
            }
        }
    }
}

/// A lock of the other library on X, with a job that adds a line to the file "order" and ends when there is a file with
/// that name.
struct Peer {
    child: Child,
    line: String,
}

impl Peer {
    fn start(kind: Kind, lock: &str, store: &Store, line: &str) -> Peer {
        let folder = store.folder.path("").display().to_string();
        // Whether somebody is alive who should not be.
        let job = "cd \"$1\"; read -r pid < pid && [ /proc/$pid/cwd -ef . ] && echo alive >> order; echo \"$0\" >> order; until [ -e \"$0\" ]; do sleep 0.05; done";
        let (hosts, chroot) = store.url.trim_start_matches("zk://").split_once('/').expect("a chroot");
        let path = format!("/{chroot}/X");
        let mut command = kind.command();
        command.args([hosts, &path, lock, "sh", "-c", job, line, &folder]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the closure makes one system call.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        Peer { child: command.spawn().expect("the peer; tests/run installs it"), line: line.to_owned() }
    }

    fn ends(mut self, store: &Store) {
        fs::write(store.folder.path(&self.line), "").expect("a file");
        self.child.wait().expect("its end");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// So many hold X or wait for it.
fn await_places(store: &Store, count: usize) {
    eventually(STARTED, &format!("{count} places"), || {
        let status = store.status("X");
        let length = |name: &str| status[name].as_array().map_or(0, Vec::len);
        length("holders") + length("waiters") == count
    });
}

fn await_order(store: &Store, lines: &[&str]) {
    eventually(STARTED, &format!("{lines:?}"), || store.order() == lines);
}

#[test]
fn they_stand_in_one_line() {
    let store = Store::zookeeper();
    let holder = store.hold("X", &[]);
    let mut peers = Vec::new();
    let mut waiters = Vec::new();
    // kazoo and Curator do not see each other: between two of them is one of ours.
    let lines = ["kazoo 1", "redlock 2", "curator 3", "redlock 4", "kazoo 5", "redlock 6"];
    for (place, line) in lines.iter().enumerate() {
        match line.split(' ').next() {
            Some("kazoo") => peers.push(Peer::start(Kind::Kazoo, "lock", &store, line)),
            Some("curator") => peers.push(Peer::start(Kind::Curator, "lock", &store, line)),
            _ => waiters.push(store.wait_in_line("X", line, &["--ttl", "10s"])),
        }
        await_places(&store, place + 2);
    }
    assert!(fs::metadata(store.folder.path("order")).is_err());
    holder.let_go().expect(0);
    let mut peers = peers.into_iter();
    for (place, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with("redlock")) {
        await_order(&store, &lines[..=place]);
        let peer = peers.next().expect("a peer");
        assert_eq!(peer.line, *line);
        peer.ends(&store);
    }
    for waiter in waiters {
        waiter.finish().expect(0);
    }
    assert_eq!(store.order(), lines);
}

fn shows(kind: Kind) {
    let store = Store::zookeeper();
    let holder = Peer::start(kind, "lock", &store, "peer");
    await_order(&store, &["peer"]);
    let busy = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    assert!(busy.line().contains("'X' is held by another program. "), "{busy:?}");
    assert!(!busy.line().contains("never expires"), "{busy:?}");
    assert_eq!(store.status("X")["holders"][0]["foreign"], true);
    // Another program is not told: its node is taken away.
    store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    holder.ends(&store);
}

#[test]
fn a_lock_of_kazoo_is_shown() {
    shows(Kind::Kazoo);
}

#[test]
fn a_lock_of_curator_is_shown() {
    shows(Kind::Curator);
}

/// The job is dead when that of the other begins, whatever happened to redlock.
fn follows(kind: Kind, mut store: Store, prefix: &[String], fault: impl FnOnce(&mut Store, &Running)) {
    let folder = store.folder.path("").display().to_string();
    let ttl = in_ms(store.lease(slowed(3000)));
    let job = "cd \"$0\"; trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let run =
        [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--ttl", &ttl, "--", "sh", "-c", job, &folder];
    let line = [&prefix[..], &run].concat();
    let mut holder = store.reached_by(Redlock::under(line[0], &line[1..])).spawn();
    holder.await_file(&store.folder.path("pid"));
    let pid = pid_in(&store.folder.path("pid"));
    let peer = Peer::start(kind, "lock", &store, "peer");
    await_places(&store, 2);
    assert!(is_alive(pid));
    fault(&mut store, &holder);
    await_order(&store, &["peer"]);
    holder.signal(Signal::SIGCONT);
    holder.finish().expect(79);
    peer.ends(&store);
    assert_eq!(store.order(), ["peer"]);
}

fn follows_one_that_is_stopped(kind: Kind) {
    follows(kind, Store::zookeeper(), &[], |_, holder| holder.signal(Signal::SIGSTOP));
}

fn follows_one_that_is_cut_off(kind: Kind) {
    if !namespaces() {
        return;
    }
    let zookeeper = ZooKeeper::on_hosts(1);
    let host = zookeeper.network().on(1);
    let cut_off = |store: &mut Store, _: &Running| store.zookeeper_servers().network().cut_off(1);
    follows(kind, Store::own_zookeeper(zookeeper), &host, cut_off);
}

#[test]
fn kazoo_begins_after_the_death_of_the_job() {
    follows_one_that_is_stopped(Kind::Kazoo);
}

#[test]
fn curator_begins_after_the_death_of_the_job() {
    follows_one_that_is_stopped(Kind::Curator);
}

#[test]
fn kazoo_begins_after_the_death_of_a_job_that_is_cut_off() {
    follows_one_that_is_cut_off(Kind::Kazoo);
}

#[test]
fn curator_begins_after_the_death_of_a_job_that_is_cut_off() {
    follows_one_that_is_cut_off(Kind::Curator);
}

/// Readers hold it together, a writer waits for them, and a reader behind a writer for that one.
fn share(kind: Kind) {
    let store = Store::zookeeper();
    let ours = store.hold("X", &["--shared"]);
    let theirs = Peer::start(kind, "read", &store, "reader");
    await_order(&store, &["reader"]);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    store.redlock(&["run", "-k", "X", "--shared", "--", "true"]).run().expect(0);
    let writer = Peer::start(kind, "write", &store, "writer");
    await_places(&store, 3);
    let late = store.wait_in_line("X", "late", &["--shared"]);
    await_places(&store, 4);
    ours.let_go().expect(0);
    await_places(&store, 3);
    assert_eq!(store.order(), ["reader"]);
    theirs.ends(&store);
    await_order(&store, &["reader", "writer"]);
    store.redlock(&["run", "-k", "X", "--shared", "--", "true"]).run().expect(75);
    writer.ends(&store);
    late.finish().expect(0);
    assert_eq!(store.order(), ["reader", "writer", "late"]);
    // And the other way round: ours writes.
    let ours = store.hold("X", &[]);
    let theirs = Peer::start(kind, "read", &store, "next reader");
    await_places(&store, 2);
    assert_eq!(store.order().len(), 3);
    ours.let_go().expect(0);
    await_order(&store, &["reader", "writer", "late", "next reader"]);
    theirs.ends(&store);
}

#[test]
fn readers_and_writers_of_kazoo() {
    share(Kind::Kazoo);
}

#[test]
fn readers_and_writers_of_curator() {
    share(Kind::Curator);
}

/// A node that ends with a session is how other recipes hold a lock. redlock starts nothing beside it.
#[test]
fn a_lock_of_another_recipe_is_refused() {
    const NODE: &str = "import sys; from kazoo.client import KazooClient; zk = KazooClient(sys.argv[1]); zk.start(30); zk.create(sys.argv[2], b'', ephemeral=True, sequence=sys.argv[3] == 'numbered', makepath=True); open(sys.argv[4], 'w').close(); sys.stdin.read(); zk.stop()";
    let store = Store::zookeeper();
    let (hosts, chroot) = store.url.trim_start_matches("zk://").split_once('/').expect("a chroot");
    let uuid = "6f1d1c9e-9c43-4f3c-8f57-0f5d3f8b8a11";
    for (name, kind) in [
        (format!("_c_{uuid}-latch-"), "numbered"),
        ("x-72057594037927936-".to_owned(), "numbered"),
        ("n_".to_owned(), "numbered"),
        (uuid.replace('-', ""), "named"),
        (format!("leases/_c_{uuid}-lease-"), "numbered"),
        (format!("locks/_c_{uuid}-lock-"), "numbered"),
    ] {
        let path = format!("/{chroot}/X/{name}");
        let there = store.folder.path(&name.replace('/', "-"));
        let args = ["-c", NODE, hosts, &path, kind, there.to_str().expect("a path")];
        let mut peer = Redlock::under("/usr/bin/python3", &args).open_stdin().spawn();
        peer.await_file(&there);
        let refused = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(78);
        assert!(refused.line().contains(" of another recipe there"), "{name}: {refused:?}");
        store.redlock(&["run", "-k", "X", "--wait", "--shared", "--", "true"]).run().expect(78);
        let shown = store.redlock(&["status", "X"]).run().expect(78);
        assert!(shown.stderr.contains(" of another recipe there"), "{name}: {shown:?}");
        peer.let_go().expect(0);
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    }
}
