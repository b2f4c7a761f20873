//! The master of a lock is replaced, or the lock moves to another server, while a job runs and others wait.

use std::time::{Duration, Instant};

use crate::harness::{
    Fleet, Folder, Redis, Redlock, Running, Sentinel, Store, Witness, await_file, eventually, ttl, within,
};

/// A job in its lock, and three in line.
struct Takeover {
    store: Store,
    witness: Witness,
    first: Running,
    others: Vec<Running>,
}

impl Takeover {
    fn new(store: Store, options: &[&str]) -> Takeover {
        let witness = Witness::new();
        let ttl = ttl(10_000);
        let run = |work: &str, options: &[&str]| {
            let job = witness.job(work);
            let job: Vec<&str> = job.iter().map(String::as_str).collect();
            store.redlock(&[&["run", "--key", "X", "--ttl", &ttl][..], options, &["--"], &job].concat())
        };
        let first = run("-", options).open_stdin().spawn();
        eventually(Duration::from_secs(20), "the first job", || witness.is_occupied());
        let waiting = [options, &["--wait", "5m"]].concat();
        let others = (1..=3)
            .map(|place| {
                let other = run("0", &waiting).spawn();
                store.await_waiters("X", place);
                other
            })
            .collect();
        Takeover { store, witness, first, others }
    }

    /// The first has its lock where it is now, and ends well; then the others one by one, soon after. Returns what the first
    /// one said.
    #[track_caller]
    fn goes_on(mut self) -> String {
        let pid = u64::try_from(self.first.pid()).expect("a pid");
        eventually(Duration::from_secs(60), "the lock at its new place", || {
            assert!(!self.first.has_ended(), "the lock was lost");
            self.store.status("X")["holders"][0]["pid"] == pid
        });
        let first = self.first.let_go().expect(0);
        let end = Instant::now();
        for other in self.others {
            other.finish().expect(0);
        }
        within(Duration::from_secs(12), end);
        self.witness.assert_alone();
        assert_eq!(self.witness.entries(), 4, "{first:?}");
        first.stderr
    }
}

fn sentinel(store: &mut Store) -> &mut Sentinel {
    match &mut store.fleet {
        Fleet::Sentinel(sentinel) => sentinel,
        _ => panic!("a scene behind Sentinel"),
    }
}

fn cluster(store: &mut Store) -> &mut crate::harness::Cluster {
    match &mut store.fleet {
        Fleet::Cluster(cluster) => cluster,
        _ => panic!("a scene in a cluster"),
    }
}

#[test]
fn sentinel_master_killed() {
    let mut scene = Takeover::new(Store::own_sentinel(), &[]);
    let sentinel = sentinel(&mut scene.store);
    let master = sentinel.master();
    let from = master.port;
    master.kill();
    sentinel.await_failover(from);
    scene.goes_on();
}

/// The replica never heard of the lock, and becomes the master: the lock is taken again by its holder.
#[test]
fn sentinel_failover_forgets_the_lock() {
    let mut store = Store::own_sentinel();
    let sentinel_of = sentinel(&mut store);
    let from = sentinel_of.master().port;
    let replica = sentinel_of.servers.iter().find(|server| server.port != from).expect("a replica");
    // It cannot log in any more, and so gets nothing.
    replica.cli(&["config", "set", "masterauth", "canary"]);
    sentinel_of.master().cli(&["client", "kill", "type", "replica"]);
    let mut scene = Takeover::new(store, &[]);
    let sentinel = sentinel(&mut scene.store);
    sentinel.master().kill();
    sentinel.await_failover(from);
    let stderr = scene.goes_on();
    assert!(stderr.contains("'X' was gone from the store"), "{stderr}");
}

/// It wakes up as somebody who believes to be the master, which nobody listens to.
#[test]
fn sentinel_master_hung() {
    let mut scene = Takeover::new(Store::own_sentinel(), &[]);
    let sentinel = sentinel(&mut scene.store);
    let master = sentinel.master();
    let from = master.port;
    master.pause();
    sentinel.await_failover(from);
    let old = sentinel.servers.iter().find(|server| server.port == from).expect("the old master");
    old.resume();
    scene.goes_on();
}

#[test]
fn cluster_master_killed() {
    let mut scene = Takeover::new(Store::own_cluster(), &[]);
    cluster(&mut scene.store).kill_master_of("X");
    cluster(&mut scene.store).master_of("X");
    scene.goes_on();
}

#[test]
fn cluster_master_hung() {
    let mut scene = Takeover::new(Store::own_cluster(), &[]);
    let old = cluster(&mut scene.store).pause_master_of("X");
    cluster(&mut scene.store).master_of("X");
    cluster(&mut scene.store).servers[old].resume();
    scene.goes_on();
}

/// An old master that hung goes on as one for some seconds, until the Sentinels tell it, and a Sentinel that hung
/// believes it. What it says does not count: neither a renewal, nor a lease that has ended there.
#[test]
fn sentinel_old_master_does_not_count() {
    let mut scene = Takeover::new(Store::own_sentinel(), &["--quiet"]);
    let sentinel = sentinel(&mut scene.store);
    let master = sentinel.master();
    let from = master.port;
    master.pause();
    sentinel.pause_sentinel(0);
    sentinel.await_failover(from);
    let old = sentinel.servers.iter().find(|server| server.port == from).expect("the old master");
    sentinel.resume_sentinel(0);
    old.resume();
    assert!(old.cli(&["role"]).starts_with("master"), "it was told at once");
    old.cli(&["del", "X"]);
    let lease = old.cli(&["get", "redlock:{X}:lease:X"]);
    let (_, rest) = lease.split_once(' ').expect("a lease");
    old.cli(&["set", "redlock:{X}:lease:X", &format!("0 {rest}")]);
    for waiter in old.cli(&["pubsub", "channels", "redlock:*"]).lines() {
        old.cli(&["publish", waiter, "ask"]);
    }
    scene.goes_on();
}

#[test]
fn cluster_slot_migrates() {
    let mut scene = Takeover::new(Store::own_cluster(), &[]);
    cluster(&mut scene.store).migrate("X", || {});
    scene.goes_on();
}

/// While the slot is on its way the servers ask for patience, of those who hold locks in it as well.
#[test]
fn cluster_slot_is_on_its_way() {
    let store = Store::own_cluster();
    let Fleet::Cluster(cluster) = &store.fleet else { panic!("a cluster") };
    let mut waiting = None;
    let holder = store.hold("X", &["--ttl", &ttl(6000)]);
    let refusals = || {
        let stats = cluster.servers.iter().map(|server| server.cli(&["info", "errorstats"]));
        stats.filter(|stats| stats.contains("TRYAGAIN")).count()
    };
    cluster.migrate("X", || {
        let args = ["run", "-k", "X", "--wait", "--quiet", "--", "echo", "ran"];
        waiting = Some(store.redlock(&args).spawn());
        eventually(Duration::from_secs(20), "a request for patience", || refusals() == 1);
    });
    eventually(Duration::from_secs(20), "the holder at its new place", || {
        store.status("X")["holders"][0]["pid"] == u64::try_from(holder.pid()).unwrap_or_default()
    });
    store.await_waiters("X", 1);
    holder.let_go().expect(0);
    assert_eq!(waiting.expect("was started").finish().expect(0).stdout, "ran\n");

    // Nothing is there yet: the old server sends them to the new one.
    let mut waiting = None;
    cluster.migrate("another", || {
        waiting = Some(store.redlock(&["run", "-k", "another", "--quiet", "--", "echo", "ran"]).spawn());
        let asked = |server: &Redis| server.cli(&["info", "errorstats"]).contains("errorstat_ASK");
        eventually(Duration::from_secs(20), "they are sent on", || cluster.servers.iter().any(asked));
    });
    assert_eq!(waiting.expect("was started").finish().expect(0).stdout, "ran\n");
}

/// Who gives the lock back there counts those who listen there.
#[test]
fn cluster_waiter_follows_the_slot() {
    let store = Store::own_cluster();
    let Fleet::Cluster(cluster) = &store.fleet else { panic!("a cluster") };
    let holder = store.hold("X", &["--ttl", "60s"]);
    let waiter = store.wait_in_line("X", "waiter", &[]);
    store.await_waiters("X", 1);
    cluster.migrate("X", || {});
    let new = &cluster.servers[cluster.master_of("X")];
    eventually(Duration::from_secs(20), "it listens there", || {
        new.cli(&["pubsub", "channels", "redlock:*"]).contains("wake")
    });
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}

#[test]
fn unknown_master_and_no_sentinel() {
    let mut store = Store::own_sentinel();
    let run = |url: &str| {
        let args = ["run", "-k", "X", "--connect-timeout", "10s", "--", "echo", "started"];
        Redlock::new(&args).server(url).run()
    };
    let sentinel = sentinel(&mut store);
    let unknown = run(&sentinel.url_of("other")).expect(78);
    assert!(unknown.line().contains("know no master 'other'"), "{unknown:?}");
    // One dead, one hung: the third one answers soon.
    sentinel.kill_sentinels(1);
    sentinel.pause_sentinel(1);
    let start = Instant::now();
    run(&sentinel.url()).expect(0);
    within(Duration::from_secs(4), start);
    sentinel.kill_sentinels(3);
    let start = Instant::now();
    let none = run(&sentinel.url()).expect(69);
    within(Duration::from_secs(4), start);
    assert!(none.line().contains("no Sentinel answers") && none.stdout.is_empty(), "{none:?}");
    let url = sentinel.url().replace("redis+sentinel://", "");
    let hosts = url.split('/').next().expect("hosts");
    assert!(hosts.split(',').all(|host| none.line().contains(host)), "{none:?}");
}

#[test]
fn sentinels_with_a_password() {
    let sentinel = Sentinel::with(Some("canary"));
    let folder = Folder::new();
    let run = |options: &[&str]| {
        let args = [&["run", "-k", "X"][..], options, &["--", "true"]].concat();
        Redlock::new(&args).server(&sentinel.url()).run()
    };
    let password = |name: &str, word: &str| {
        let path = folder.path(name);
        std::fs::write(&path, word).expect("a password file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("its mode");
        path.display().to_string()
    };
    for refused in [run(&[]), run(&["--sentinel-password-file", &password("wrong", "wrong-canary")])] {
        let line = refused.line();
        assert!(line.contains("--sentinel-password-file") && !line.contains("canary"), "{refused:?}");
        assert_eq!(refused.code(), 77);
    }
    run(&["--sentinel-password-file", &password("right", "canary")]).expect(0);
}

/// As long as one of them answers, it does not matter that others refuse.
#[test]
fn sentinels_that_refuse() {
    let mut store = Store::own_sentinel();
    let run = |url: &str| {
        let start = Instant::now();
        let run =
            Redlock::new(&["run", "-k", "X", "--connect-timeout", "2s", "--", "true"]).server(url).run();
        within(Duration::from_secs(3), start);
        run
    };
    let sentinel = sentinel(&mut store);
    let url = sentinel.url();
    sentinel.refuse(0, &["resetpass", ">another"]);
    run(&url).expect(0);
    sentinel.refuse(1, &["-sentinel"]);
    run(&url).expect(0);
    // One that does not know the master did answer.
    run(&sentinel.url_of("other")).expect(78);
    sentinel.kill_sentinel(2);
    let refused = run(&url).expect(77);
    assert!(refused.line().contains("the Sentinel 127.0.0.1:"), "{refused:?}");
    sentinel.kill_sentinels(1);
    let refused = run(&url).expect(77);
    assert!(refused.line().contains("NOPERM"), "{refused:?}");
}

#[test]
fn a_dead_cluster() {
    let (one, other) = (crate::harness::free_port(), crate::harness::free_port());
    let url = format!("redis+cluster://127.0.0.1:{one},127.0.0.1:{other}");
    let start = Instant::now();
    let run = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&url).run().expect(69);
    assert!(run.line().contains(&url) && run.line().contains("none of its servers answers"), "{run:?}");
    within(Duration::from_secs(2), start);
}

#[test]
fn a_single_server_is_no_cluster() {
    let redis = Redis::start();
    let url = redis.url().replace("redis://", "redis+cluster://");
    let run = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&url).run().expect(78);
    assert!(run.line().contains("not part of a Redis Cluster"), "{run:?}");
}

/// With as many replicas as wanted it is as without; with fewer there is no start, and nothing left behind.
#[test]
fn replicas() {
    let mut store = Store::own_sentinel();
    let run = |store: &Store, count: &str, wait: &str| {
        store.redlock(&["run", "-k", "X", "--replicas", count, wait, "--", "echo", "started"]).run()
    };
    run(&store, "1", "--no-wait").expect(0);
    let lacking = run(&store, "2", "--no-wait").expect(69);
    assert!(
        lacking.line().contains("only 1 of 2 replicas have 'X' within 1s; it was given back")
            && lacking.stdout.is_empty(),
        "{lacking:?}"
    );
    run(&store, "2", "--wait=1s").expect(69);
    assert!(store.status("X")["holders"][0].is_null());
    assert_eq!(store.waiters("X"), 0);

    // A renewal that no replica has does not count.
    let args = ["run", "-k", "X", "--ttl", "2s", "--replicas", "1", "--", "sleep", "60"];
    let holder = store.redlock(&args).spawn();
    store.await_holder("X");
    let sentinel = sentinel(&mut store);
    let master = sentinel.master().port;
    sentinel.kill_sentinels(3);
    let replica = sentinel.servers.iter_mut().find(|server| server.port != master);
    replica.expect("a replica").kill();
    let lost = holder.finish().expect(79);
    assert!(lost.stderr.contains("no renewal came through"), "{lost:?}");
}

#[test]
fn replicas_in_a_cluster() {
    let store = Store::own_cluster();
    let args = ["run", "-k", "X", "-k", "Y", "-k", "Z", "--replicas", "1", "--", "true"];
    store.redlock(&args).run().expect(0);
    let lacking = store.redlock(&["run", "-k", "X", "--replicas", "2", "--", "true"]).run().expect(69);
    assert!(lacking.line().contains("only 1 of 2 replicas have 'X'"), "{lacking:?}");
    assert!(store.status("X")["holders"][0].is_null());
}

/// All masters are asked.
#[test]
fn status_of_a_whole_cluster() {
    let store = Store::own_cluster();
    let keys = ["a", "b", "c", "d"];
    let args: Vec<&str> = keys.iter().flat_map(|key| ["-k", key]).collect();
    store.redlock(&[&["acquire"][..], &args].concat()).run().expect(0);
    let listed = store.redlock(&["status", "--json"]).run().expect(0).stdout;
    let locks: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let listed: Vec<&str> =
        locks.as_array().into_iter().flatten().filter_map(|lock| lock["key"].as_str()).collect();
    assert_eq!(listed, keys);
}

/// A master of which nothing takes the place hides what it has, which is said, and nothing else.
#[test]
fn status_of_a_cluster_that_lacks_a_master() {
    for hangs in [true, false] {
        let mut store = Store::own_cluster();
        // The first and the last are on one server.
        let keys = ["a", "b", "c", "d"];
        let args: Vec<&str> = keys.iter().flat_map(|key| ["-k", key]).collect();
        store.redlock(&[&["acquire"][..], &args].concat()).run().expect(0);
        let cluster = cluster(&mut store);
        let master = cluster.master_of("a");
        cluster.servers[master + 3].kill();
        let gone = match hangs {
            true => cluster.pause_master_of("d"),
            false => cluster.kill_master_of("d"),
        };
        assert_eq!(gone, master);
        let gone = format!("127.0.0.1:{} of redis+cluster://", cluster.servers[gone].port);
        let status = |asked: &[&str], code: i32, seen: &[&str]| {
            let start = Instant::now();
            let status = store.redlock(&[&["status", "--json"][..], asked].concat()).run().expect(code);
            within(Duration::from_secs(6), start);
            let locks: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
            let locks = locks.as_array().into_iter().flatten();
            let locks: Vec<&str> = locks.filter_map(|lock| lock["key"].as_str()).collect();
            assert_eq!(locks, seen, "{status:?}");
            let said = status.stderr.lines().count() == 1 && status.line().contains(&gone);
            assert_eq!(said, code != 0, "{status:?}");
            assert!(code == 0 || status.line().contains("this is not all"), "{status:?}");
        };
        status(&[], 69, &["b", "c"]);
        status(&["c", "b"], 0, &["c", "b"]);
        status(&["d", "c", "a", "b"], 69, &["c", "b"]);
        // As before where nothing can be shown.
        let none = store.redlock(&["status", "a"]).run().expect(69);
        assert!(none.line().contains(&gone) && none.stdout.is_empty(), "{none:?}");
    }
}

/// A heal of which the replicas do not know does not count; it is said with the renewal that does.
#[test]
fn a_heal_that_no_replica_has() {
    let master = Redis::start();
    let replica = Redis::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let store = Store::of(master);
    let master = store.redis.as_ref().expect("the master");
    eventually(Duration::from_secs(20), "the replica follows", || {
        master.cli(&["info", "replication"]).contains("state=online")
    });
    let started = store.folder.path("started");
    let job = ["sh", "-c", "echo > \"$0\"; cat", started.to_str().expect("a path")];
    let ttl = ttl(9000);
    let args = [&["run", "-k", "X", "--ttl", &ttl, "--replicas", "1", "--"][..], &job].concat();
    let holder = store.redlock(&args).open_stdin().spawn();
    await_file(&started);
    replica.pause();
    store.lose_everything();
    eventually(Duration::from_secs(60), "the lock is healed", || master.cli(&["exists", "X"]) == "1");
    let renewals = || master.commandstats().get("evalsha").copied().unwrap_or(0);
    let healed = renewals();
    eventually(Duration::from_secs(60), "it did not count", || renewals() > healed);
    replica.resume();
    let acknowledged = || {
        let answer = master.cli(&["info", "replication"]);
        let offset = |name: &str| {
            let (_, rest) = answer.split_once(name)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        offset("offset=") >= offset("master_repl_offset:")
    };
    eventually(Duration::from_secs(60), "the replica has it", acknowledged);
    let later = renewals();
    eventually(Duration::from_secs(60), "a renewal that counts", || renewals() > later);
    let healed = holder.let_go().expect(0);
    assert!(healed.line().contains("'X'") && healed.line().contains("gone"), "{healed:?}");
}

#[test]
fn replicas_where_there_are_none() {
    let store = Store::local();
    let refused = store.redlock(&["run", "-k", "X", "--replicas", "1", "--", "true"]).run().expect(78);
    assert!(refused.line().contains("local: has no replicas"), "{refused:?}");
}
