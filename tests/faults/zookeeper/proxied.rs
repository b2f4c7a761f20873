//! Requests that are held up, or counted, on their way to a server.

use std::time::Duration;

use crate::harness::{Fault, Proxy, Running, Store, ZooKeeper, eventually, hold_one};

/// The address of the store, where these proxies are its servers.
fn by_way_of(store: &Store, proxies: &[&Proxy]) -> String {
    let (_, chroot) = store.url.rsplit_once('/').expect("a chroot");
    let servers: Vec<String> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port)).collect();
    format!("zk://{}/{chroot}", servers.join(","))
}

/// The first one finds the lock free, and is behind two others when its nodes are there. When it looks again, both have come
/// and gone.
#[test]
fn a_fence_is_higher_than_those_of_who_came_between() {
    let mut store = Store::own_zookeeper(ZooKeeper::start());
    let proxy = Proxy::to(store.zookeeper_servers().servers[0].port);
    let through = by_way_of(&store, &[&proxy]);
    let fence = |wait: &[&str]| {
        let args = [&["run", "-k", "X", "--ttl", "5m"][..], wait, &["--", "sh", "-c", "echo $REDLOCK_FENCE"]]
            .concat();
        store.redlock(&args).env("REDLOCK_CONNECT_TIMEOUT", "5m")
    };
    let number = |run: Running| run.finish().expect(0).stdout.trim().parse::<u64>().expect("a number");
    let is_held_up = || eventually(Duration::from_secs(20), "a request", || proxy.late() == 1);

    proxy.set(Fault::Hold("__lock__"));
    let late = fence(&[]).server(&through).spawn();
    is_held_up();
    let holder = store.hold("X", &[]);
    let waiter = fence(&["--wait", "-q"]).spawn();
    store.await_waiters("X", 1);
    proxy.set(Fault::Hold("/X"));
    store.await_waiters("X", 2);
    is_held_up();
    holder.let_go().expect(0);
    let earlier = number(waiter);
    proxy.set(Fault::None);
    let later = number(late);
    assert!(later > earlier, "{later} after {earlier}");
}

/// With all that time for an attempt the waiter asks another server before its place in the queue has ended.
#[test]
fn the_server_that_grants_the_lock_hangs() {
    let mut store = Store::own_zookeeper(ZooKeeper::start());
    let port = store.zookeeper_servers().servers[0].port;
    let proxies = [Proxy::to(port), Proxy::to(port)];
    let url = by_way_of(&store, &[&proxies[0], &proxies[1]]);
    let holder = store.hold("X", &[]);
    let first = store.wait_in_line_at(&url, "X", "first", &["--connect-timeout", "1m"]);
    store.await_waiters("X", 1);
    let second = store.wait_in_line("X", "second", &[]);
    store.await_waiters("X", 2);
    hold_one(&proxies, "granted", || drop(holder.let_go().expect(0)));
    first.finish().expect(0);
    second.finish().expect(0);
    assert_eq!(store.order(), ["first", "second"]);
}

/// Its request is held up until its session has ended.
#[test]
fn status_looks_again_when_its_session_has_ended() {
    let mut store = Store::own_zookeeper(ZooKeeper::start());
    let proxy = Proxy::to(store.zookeeper_servers().servers[0].port);
    let through = by_way_of(&store, &[&proxy]);
    let _holder = store.hold("X", &[]);
    proxy.set(Fault::Hold("/X"));
    let status = store.redlock(&["status", "--json", "X", "--connect-timeout", "1m"]);
    let mut status = status.server(&through).spawn();
    eventually(Duration::from_secs(30), "it looks again", || proxy.injected() > 1 || status.has_ended());
    assert!(proxy.injected() > 1, "it looked once: {:?}", status.finish());
    proxy.set(Fault::None);
    assert!(status.finish().expect(0).stdout.contains("\"X\""));
}

/// They are in one session: a renewal of one takes as many round trips.
#[test]
fn ten_locks_are_renewed_on_one_connection() {
    let mut store = Store::own_zookeeper(ZooKeeper::start());
    let proxy = Proxy::to(store.zookeeper_servers().servers[0].port);
    let url = by_way_of(&store, &[&proxy]);
    let log = store.folder.path("log").display().to_string();
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|key| ["-k", key]).concat();
    let ttl = store.ttl(3000);
    let args = [&["run", "--ttl", &ttl, "-v", "--log-file", &log][..], &keys, &["--", "cat"]].concat();
    let mut run = store.redlock(&args).server(&url).open_stdin().spawn();
    let said = |what: &str| std::fs::read_to_string(&log).unwrap_or_default().matches(what).count();
    run.lives_until("its job runs", || said("run_started") == 1);
    let before = proxy.round_trips();
    run.lives_until("two renewals", || said("lock_renewed") == 2);
    let took = proxy.round_trips() - before;
    assert!(took < 15, "{took} round trips");
    run.let_go().expect(0);
}
