//! Several locks on different servers, of which one is taken away and another cannot be asked about.

use std::time::Duration;

use crate::harness::{Fleet, Redis, Store, Witness, eventually};

/// A job that waits for the last of three locks holds two. One of them is another's now, and the server of the other
/// hangs: that it cannot be renewed must not hide what is lost.
#[test]
fn a_lock_is_lost_and_another_cannot_be_renewed() {
    let mut store = Store::own_cluster();
    let Fleet::Cluster(cluster) = &mut store.fleet else { panic!("a cluster") };
    let masters = ["a", "b", "c"].map(|key| cluster.master_of(key));
    let mut sorted = masters;
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2], "each key is on a master of its own");
    // Nobody takes the place of the master that will hang.
    cluster.servers[masters[1] + 3].kill();

    let witness = Witness::new();
    let holder = store.hold("c", &["--ttl", "60s"]);
    let args = ["run", "-k", "a", "-k", "b", "-k", "c", "--wait", "--ttl", "6s", "--connect-timeout", "1s"];
    let started = witness.file("started");
    let job = ["--", "touch", started.to_str().expect("a path")];
    let waiter = store.redlock(&[&args[..], &job].concat()).spawn();
    store.await_waiters("c", 1);
    let Fleet::Cluster(cluster) = &store.fleet else { panic!("a cluster") };
    let [a, b, c] = masters.map(|index| &cluster.servers[index]);
    let is_set = |server: &Redis, key: &str| !server.cli(&["get", key]).is_empty();
    assert!(is_set(a, "a") && is_set(b, "b"), "it holds the first two");
    // Renewed every 2 s; and once more when the last one is granted, unless that was just done.
    eventually(Duration::from_secs(10), "the middle between two renewals", || {
        (4700..5300).contains(&a.cli(&["pttl", "a"]).parse().unwrap_or(0))
    });
    b.pause();
    a.cli(&["set", "a", "another"]);
    holder.let_go().expect(0);
    eventually(Duration::from_secs(5), "the last lock is granted", || is_set(c, "c") || started.exists());
    eventually(Duration::from_secs(20), "it is given back", || !is_set(c, "c") || started.exists());
    assert!(!started.exists(), "the job runs under a lock of another");
    b.resume();
    store.await_waiters("a", 1);
    assert!(!started.exists(), "the job runs under a lock of another");
    a.cli(&["del", "a"]);
    waiter.finish().expect(0);
    assert!(started.exists());
}
