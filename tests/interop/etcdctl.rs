//! redlock and `etcdctl lock` on one name.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::harness::{Etcd, Store, eventually};

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
