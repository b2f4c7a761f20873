//! redlock and `etcdctl lock` on one name.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Etcd, Redlock, Running, Store, await_file, eventually, in_ms, namespaces, pid_in, slowed,
};

/// `etcdctl lock X` with a job that adds a line to the file "order" and ends when there is a file with that name.
struct Peer {
    child: Child,
    line: &'static str,
}

impl Peer {
    fn start(store: &mut Store, line: &'static str) -> Peer {
        let [order, end] = ["order", line].map(|name| store.folder.path(name).display().to_string());
        let job = "echo \"$0\" >> \"$1\"; until [ -e \"$2\" ]; do sleep 0.05; done";
        let args = ["lock", "X", "--", "sh", "-c", job, line, &order, &end];
        let mut command = store.etcd_members().etcdctl(&args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("etcdctl");
        Peer { child, line }
    }

    fn ends(mut self, store: &Store) {
        fs::write(store.folder.path(self.line), "").expect("a file");
        self.child.wait().expect("its end");
    }
}

fn await_places(store: &mut Store, count: usize) {
    eventually(Duration::from_secs(20), &format!("{count} places"), || {
        store.etcd_members().ctl(&["get", "--prefix", "--keys-only", "X/"]).1.split_whitespace().count()
            == count
    });
}

#[test]
fn they_stand_in_one_line() {
    let mut store = Store::own_etcd(Etcd::start());
    let holder = store.hold("X", &[]);
    await_places(&mut store, 1);
    let one = Peer::start(&mut store, "etcdctl 1");
    await_places(&mut store, 2);
    let two = store.wait_in_line("X", "redlock 2", &["--ttl", "10s"]);
    await_places(&mut store, 3);
    let three = Peer::start(&mut store, "etcdctl 3");
    await_places(&mut store, 4);
    let four = store.wait_in_line("X", "redlock 4", &[]);
    await_places(&mut store, 5);
    assert_eq!(store.status("X")["waiters"].as_array().map(Vec::len), Some(4));
    assert!(fs::metadata(store.folder.path("order")).is_err());
    holder.let_go().expect(0);
    one.ends(&store);
    two.finish().expect(0);
    three.ends(&store);
    four.finish().expect(0);
    assert_eq!(store.order(), ["etcdctl 1", "redlock 2", "etcdctl 3", "redlock 4"]);
}

#[test]
fn who_has_it_is_shown() {
    let mut store = Store::own_etcd(Etcd::start());
    let holder = Peer::start(&mut store, "etcdctl");
    eventually(Duration::from_secs(20), "its job", || store.order() == ["etcdctl"]);
    let busy = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    assert!(busy.line().contains("'X' is held by another program; "), "{busy:?}");
    assert_eq!(store.status("X")["holders"][0]["foreign"], true);
    // Another program is not told: its key is taken away.
    store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    holder.ends(&store);
}

/// A name below another one is another lock, for redlock.
#[test]
fn names_below_a_name_are_other_locks() {
    let store = Store::own_etcd(Etcd::start());
    let below = store.hold("X/a", &[]);
    let above = store.hold("X", &[]);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    let waiter = store.wait_in_line("X", "waited", &[]);
    store.await_waiters("X", 1);
    above.let_go().expect(0);
    waiter.finish().expect(0);
    below.let_go().expect(0);
}

/// A lease of another program: its id, in hexadecimal and in decimal digits.
fn lease(store: &mut Store) -> (String, i64) {
    let (_, granted) = store.etcd_members().ctl(&["lease", "grant", "300"]);
    let hex = granted.split_whitespace().nth(1).expect("an id").to_owned();
    let decimal = i64::from_str_radix(&hex, 16).expect("a number");
    (hex, decimal)
}

/// The key with the name of the lock, or one below it, is how other recipes hold a lock. redlock starts nothing beside it.
#[test]
fn a_lock_of_another_recipe_is_refused() {
    let mut store = Store::own_etcd(Etcd::start());
    let (hex, decimal) = lease(&mut store);
    let run = |store: &Store, options: &[&str]| {
        let args = [&["run", "-k", "X"][..], options, &["--", "true"]].concat();
        store.redlock(&args).run()
    };
    for name in ["X".to_owned(), "X/some-name".to_owned(), format!("X/write/{decimal}")] {
        store.etcd_members().ctl(&["put", &format!("--lease={hex}"), &name, "theirs"]);
        let refused = run(&store, &[]).expect(78);
        let found = format!("a key '{name}' with a lease of another program there");
        assert!(refused.line().contains(&found), "{refused:?}");
        run(&store, &["--wait", "--shared"]).expect(78);
        let shown = store.redlock(&["status", "X"]).run().expect(78);
        assert!(shown.stderr.contains(&found), "{shown:?}");
        store.etcd_members().ctl(&["del", &name]);
        run(&store, &[]).expect(0);
    }
    // A key without a lease is not a lock, and a lock of redlock below is another one.
    store.etcd_members().ctl(&["put", "X/some-name", "data"]);
    let below = store.hold("X/write", &[]);
    run(&store, &[]).expect(0);
    below.let_go().expect(0);
}

/// Such a place is that of a lease in hexadecimal digits, written otherwise.
#[test]
fn a_place_with_a_lease_in_decimal_digits_is_waited_for() {
    let mut store = Store::own_etcd(Etcd::start());
    let (hex, decimal) = lease(&mut store);
    let name = format!("X/{decimal}");
    store.etcd_members().ctl(&["put", &format!("--lease={hex}"), &name, ""]);
    let busy = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    assert!(busy.line().contains("'X' is held by another program"), "{busy:?}");
    let waiter = store.wait_in_line("X", "waited", &[]);
    store.await_waiters("X", 1);
    store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
    waiter.finish().expect(0);
}

/// It ignores SIGTERM. "$0" is the folder.
const FIRST: &str = "cd \"$0\" || exit 9; trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
/// It says whether the first one is alive.
const SECOND: &str =
    "cd \"$0\"; read -r pid < pid; if [ /proc/$pid/cwd -ef . ]; then echo both; else echo alone; fi > order";

/// The job of `redlock` is dead when that of etcdctl begins, whatever happened to redlock.
fn follows(mut store: Store, prefix: &[String], fault: impl FnOnce(&mut Store, &Running)) {
    let folder = store.folder.path("").display().to_string();
    let ttl = in_ms(store.lease(slowed(3000)));
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let run =
        [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--ttl", &ttl, "--", "sh", "-c", FIRST, &folder];
    let line = [&prefix[..], &run].concat();
    let mut holder = store.reached_by(Redlock::under(line[0], &line[1..])).spawn();
    holder.await_file(&store.folder.path("pid"));
    let lock = ["lock", "X", "--", "sh", "-c", SECOND, &folder];
    let mut etcdctl = store.etcd_members().etcdctl(&lock);
    let mut etcdctl = etcdctl.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("etcdctl");
    await_places(&mut store, 2);
    fault(&mut store, &holder);
    etcdctl.wait().expect("its end");
    holder.signal(Signal::SIGCONT);
    holder.finish().expect(79);
    assert_eq!(store.order(), ["alone"]);
}

#[test]
fn etcdctl_begins_after_the_death_of_the_job() {
    follows(Store::own_etcd(Etcd::start()), &[], |_, holder| holder.signal(Signal::SIGSTOP));
}

#[test]
fn etcdctl_begins_after_the_death_of_a_job_that_is_cut_off() {
    if !namespaces() {
        return;
    }
    let etcd = Etcd::on_hosts(1);
    let host = etcd.network().on(1);
    follows(Store::own_etcd(etcd), &host, |store, _| store.etcd_members().network().cut_off(1));
}

/// The same with the roles exchanged: etcdctl does not care for its job.
#[test]
fn a_job_of_etcdctl_outlives_its_lock() {
    let mut store = Store::own_etcd(Etcd::start());
    let folder = store.folder.path("").display().to_string();
    let ttl = format!("--ttl={}", slowed(2000).as_secs());
    let mut etcdctl = store.etcd_members().etcdctl(&["lock", &ttl, "X", "--", "sh", "-c", FIRST, &folder]);
    let mut etcdctl = etcdctl.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("etcdctl");
    await_file(&store.folder.path("pid"));
    let job = Pid::from_raw(pid_in(&store.folder.path("pid")));
    kill(Pid::from_raw(etcdctl.id() as i32), Signal::SIGSTOP).expect("a signal");
    let run = store.redlock(&["run", "-k", "X", "--wait", "1m", "--", "sh", "-c", SECOND, &folder]).run();
    kill(job, Signal::SIGKILL).expect("the end of the job");
    etcdctl.kill().expect("its end");
    etcdctl.wait().expect("its end");
    run.expect(0);
    assert_eq!(store.order(), ["both"]);
}
