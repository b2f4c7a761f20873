//! Several locks on different servers, of which one is taken away and another cannot be asked about.

use std::time::Duration;

use crate::harness::{Fleet, Redis, Store, Witness, eventually};

/// A job that waits for the last of three locks holds two. One of them is another's now, and the server of the other
/// hangs: that it cannot be renewed must not hide what is lost.
fn one_is_lost_and_one_cannot_be_renewed(lost: &str, hung: &str) {
    let mut store = Store::own_cluster();
    let Fleet::Cluster(cluster) = &mut store.fleet else { panic!("a cluster") };
    let masters = [lost, hung, "c"].map(|key| cluster.master_of(key));
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
    let [of_lost, of_hung, c] = masters.map(|index| &cluster.servers[index]);
    let is_set = |server: &Redis, key: &str| !server.cli(&["get", key]).is_empty();
    assert!(is_set(of_lost, lost) && is_set(of_hung, hung), "it holds the first two");
    // Renewed every 2 s; and once more when the last one is granted, unless that was just done.
    eventually(Duration::from_secs(10), "the middle between two renewals", || {
        (4700..5300).contains(&of_lost.cli(&["pttl", lost]).parse().unwrap_or(0))
    });
    of_hung.pause();
    of_lost.cli(&["set", lost, "another"]);
    holder.let_go().expect(0);
    eventually(Duration::from_secs(20), "the last lock is granted", || is_set(c, "c") || started.exists());
    eventually(Duration::from_secs(20), "it is given back", || !is_set(c, "c") || started.exists());
    assert!(!started.exists(), "the job runs under a lock of another");
    of_hung.resume();
    store.await_waiters(lost, 1);
    assert!(!started.exists(), "the job runs under a lock of another");
    of_lost.cli(&["del", lost]);
    waiter.finish().expect(0);
    assert!(started.exists());
}

#[test]
fn the_first_is_lost_and_the_second_cannot_be_renewed() {
    one_is_lost_and_one_cannot_be_renewed("a", "b");
}

#[test]
fn the_second_is_lost_and_the_first_cannot_be_renewed() {
    one_is_lost_and_one_cannot_be_renewed("b", "a");
}
