//! Which of several servers is blamed for what goes wrong.

use std::time::Duration;

use crate::harness::{Fault, Fleet, Proxy, Redis, Store, eventually, ttl};

/// The server of a lock that is waited for hangs up on whoever wants to be woken. The one with the lock that is held
/// meanwhile has nothing to do with that, and keeps its connection.
#[test]
fn cluster_waiter_blames_the_server_it_listens_to() {
    let store = Store::own_cluster();
    let Fleet::Cluster(cluster) = &store.fleet else { panic!("a scene in a cluster") };
    let (held, awaited) = (cluster.master_of("bar"), cluster.master_of("foo"));
    assert_ne!(held, awaited);
    let (held, awaited) = (&cluster.servers[held], &cluster.servers[awaited]);
    let proxy = Proxy::to(awaited.port);
    let port = proxy.port.to_string();
    assert_eq!(awaited.cli(&["config", "set", "cluster-announce-port", &port]), "OK");
    eventually(Duration::from_secs(20), "all know the way through the proxy", || {
        cluster.servers.iter().all(|server| server.cli(&["cluster", "slots"]).contains(&port))
    });
    let holder = store.hold("foo", &[]);
    let args = ["run", "-k", "bar", "-k", "foo", "--wait", "--ttl", &ttl(1500), "--", "true"];
    let waiter = store.redlock(&args).spawn();
    store.await_waiters("foo", 1);
    let calls = |server: &Redis, name: &str| server.commandstats().get(name).copied().unwrap_or_default();
    let await_renewals = || {
        let before = calls(held, "evalsha");
        let what = "the lock that is held is renewed";
        eventually(Duration::from_secs(10), what, || calls(held, "evalsha") > before + 1);
    };
    await_renewals();
    let clients = held.cli(&["client", "list"]);
    let client = clients.lines().find(|client| client.contains("cmd=evalsha")).expect("the one that waits");
    let (id, _) = client.split_once(' ').expect("its number");
    let subscribed = calls(awaited, "subscribe");
    proxy.set(Fault::CutSubscriptionAt(0));
    proxy.cut();
    eventually(Duration::from_secs(10), "it wants to listen anew", || {
        calls(awaited, "subscribe") > subscribed
    });
    proxy.set(Fault::None);
    await_renewals();
    assert!(held.cli(&["client", "list"]).contains(&format!("{id} ")), "the connection was dropped");
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}
