//! Servers of ZooKeeper die, hang, start anew, lose their leader or are cut off from it; users and certificates that are
//! not the right ones.

mod answers;
mod proxied;

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::failing_call::Call;
use crate::harness::{
    Authority, Fault, Redis, Redlock, Settings, Store, Valid, ZooKeeper, eventually, free_port, namespaces,
    python,
};
use crate::takeover::Takeover;
use crate::undisturbed::Undisturbed;

fn zookeeper(scene: &mut Takeover) -> &mut ZooKeeper {
    scene.store.zookeeper_servers()
}

/// The job is dead by the fence, and the second gets in when the server goes on.
#[test]
fn hung() {
    let mut scene = Takeover::new(Store::own_zookeeper(ZooKeeper::start()));
    scene.fault(|scene| zookeeper(scene).servers[0].pause());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    zookeeper(&mut scene).servers[0].resume();
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("lost 'X'"), "{first:?}");
}

/// Somebody deletes the one node of the holder that the next in line watches. The holder has others: the next in line starts
/// when the job is dead.
#[test]
fn a_node_of_the_holder_is_deleted() {
    const SCRIPT: &str = "import sys; from kazoo.client import KazooClient; zk = KazooClient(sys.argv[1]); zk.start(30); nodes = sorted(zk.get_children('/X'), key=lambda name: name[-10:]); zk.delete('/X/' + nodes[2]); zk.stop()";
    let mut scene = Takeover::new(Store::zookeeper());
    let url = scene.store.url.replacen("zk://", "", 1);
    scene.fault(|_| assert!(python(SCRIPT).arg(&url).status().expect("Python").success()));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn killed_for_good() {
    let mut scene = Takeover::new(Store::own_zookeeper(ZooKeeper::start()));
    scene.fault(|scene| zookeeper(scene).servers[0].kill());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    zookeeper(&mut scene).servers[0].restart();
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn redlock_is_stopped() {
    let mut scene = Takeover::new(Store::own_zookeeper(ZooKeeper::start()));
    scene.fault(|scene| scene.first.signal(Signal::SIGSTOP));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    scene.first.signal(Signal::SIGCONT);
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// As when the cable is pulled: nothing comes back, no connection is closed.
#[test]
fn cut_off() {
    if !namespaces() {
        return;
    }
    let mut scene = Takeover::new(Store::own_zookeeper(ZooKeeper::on_hosts(1)));
    scene.fault(|scene| zookeeper(scene).network().cut_off(0));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    zookeeper(&mut scene).network().join(0);
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// It is the only one that the first knows; the others choose a new leader, and the second one gets in there.
#[test]
fn a_leader_is_cut_off_from_the_others() {
    if !namespaces() {
        return;
    }
    let mut store = Store::own_zookeeper(ZooKeeper::on_hosts(3));
    let leader = store.zookeeper_servers().leader();
    let address = store.zookeeper_servers().servers[leader].address.clone();
    let (_, chroot) = store.url.rsplit_once('/').expect("a chroot");
    let of_first = format!("zk://{address}/{chroot}");
    let mut scene = Takeover::through(store, of_first);
    scene.fault(|scene| zookeeper(scene).network().cut_off_from_others(leader));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// It knows one server, which is cut off from its leader and goes on answering for seconds; the session expires where the
/// majority is, and the second one gets in there.
#[test]
fn a_follower_is_cut_off_from_its_leader() {
    let mut store = Store::own_zookeeper(ZooKeeper::with_a_follower_to_cut_off());
    let (hosts, chroot) = store.url.rsplit_once('/').expect("a chroot");
    let servers: Vec<&str> = hosts.trim_start_matches("zk://").split(',').collect();
    let of_first = format!("zk://{}/{chroot}", servers[0]);
    let of_second = format!("zk://{},{}/{chroot}", servers[1], servers[2]);
    store.url = of_second;
    let mut scene = Takeover::through(store, of_first);
    scene.fault(|scene| {
        zookeeper(scene).lines_to_leader.iter().for_each(|line| line.set(Fault::Silence));
    });
    scene.await_death(scene.ttl + Duration::from_secs(1));
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
}

fn undisturbed(zookeeper: ZooKeeper) -> Undisturbed {
    Undisturbed::new(Store::own_zookeeper(zookeeper), "15", &["--ttl", "30s", "--kill-after", "1s"])
}

#[test]
fn restarted() {
    let mut scene = undisturbed(ZooKeeper::start());
    scene.store.zookeeper_servers().servers[0].kill();
    scene.store.zookeeper_servers().servers[0].restart();
    scene.goes_on();
}

#[test]
fn the_leader_is_killed() {
    let mut scene = undisturbed(ZooKeeper::three());
    let leader = scene.store.zookeeper_servers().leader();
    scene.store.zookeeper_servers().servers[leader].kill();
    scene.goes_on();
}

#[test]
fn the_leader_hangs() {
    let mut scene = undisturbed(ZooKeeper::three());
    let leader = scene.store.zookeeper_servers().leader();
    scene.store.zookeeper_servers().servers[leader].pause();
    scene.goes_on();
}

#[test]
fn the_leader_is_cut_off() {
    if !namespaces() {
        return;
    }
    let mut scene = undisturbed(ZooKeeper::on_hosts(3));
    let leader = scene.store.zookeeper_servers().leader();
    scene.store.zookeeper_servers().network().cut_off(leader);
    scene.goes_on();
}

#[test]
fn a_follower_hangs() {
    let mut scene = undisturbed(ZooKeeper::three());
    let follower = (scene.store.zookeeper_servers().leader() + 1) % 3;
    scene.store.zookeeper_servers().servers[follower].pause();
    scene.goes_on();
}

/// A server without a leader answers nobody, and the lock outlives the job.
#[test]
fn a_majority_is_killed() {
    let mut scene = Takeover::new(Store::own_zookeeper(ZooKeeper::three()));
    scene.fault(|scene| [1, 2].into_iter().for_each(|number| zookeeper(scene).servers[number].kill()));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    [1, 2].into_iter().for_each(|number| zookeeper(&mut scene).servers[number].restart());
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn two_of_three_are_enough() {
    let mut zookeeper = ZooKeeper::three();
    let follower = (zookeeper.leader() + 1) % 3;
    zookeeper.servers[follower].kill();
    let store = Store::own_zookeeper(zookeeper);
    for _ in 0..5 {
        assert_eq!(store.redlock(&["run", "-k", "X", "--", "echo", "ran"]).run().expect(0).stdout, "ran\n");
    }
}

#[test]
fn nobody_there() {
    run_at(&format!("zk://127.0.0.1:{}", free_port())).fails(69, "connection refused");
}

#[test]
fn nobody_leads() {
    let mut zookeeper = ZooKeeper::three();
    [1, 2].into_iter().for_each(|number| zookeeper.servers[number].kill());
    let url = format!("zk://{}/X", zookeeper.servers[0].address);
    // It takes an election's time until it knows.
    eventually(Duration::from_secs(20), "it has lost its leader", || {
        run_at(&url).redlock.run().stderr.contains("lost its leader")
    });
    run_at(&url).fails(69, "lost its leader");
}

#[test]
fn no_answer_to_a_request() {
    let zookeeper = ZooKeeper::start();
    zookeeper.servers[0].pause();
    run_at(&zookeeper.url()).fails(69, "no answer in time");
}

#[test]
fn something_else_is_there() {
    let redis = Redis::start();
    run_at(&format!("zk://127.0.0.1:{}", redis.port)).fails(69, "ZooKeeper");
    let authority = Authority::new();
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    let encrypted = ZooKeeper::with(1, &Settings { papers: Some(&papers), ..Settings::default() });
    run_at(&encrypted.url().replace("zks:", "zk:")).fails(69, "zks://");
    let plain = ZooKeeper::start();
    run_at(&plain.url().replace("zk:", "zks:")).trusting(&authority).fails(69, "TLS");
}

fn run_at(url: &str) -> Call {
    let limit = crate::harness::in_ms(crate::harness::slowed(1000));
    let redlock =
        Redlock::new(&["run", "-v", "-k", "X", "--connect-timeout", &limit, "--", "echo", "started"]);
    Call { redlock: redlock.server(url), shown: url.to_owned() }
}

#[test]
fn certificates_are_checked_both_ways() {
    let authority = Authority::new();
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    let zookeeper = ZooKeeper::with(1, &Settings { papers: Some(&papers), ..Settings::default() });
    let ours = authority.sign(&["127.0.0.1"], Valid::Now);
    run_at(&zookeeper.url()).trusting(&authority).showing(&ours).works();
    run_at(&zookeeper.url()).trusting(&authority).fails(77, "certificate");
    run_at(&zookeeper.url())
        .trusting(&Authority::new())
        .showing(&ours)
        .fails(69, "not signed by an authority in --tls-ca");
}

/// Whoever asks first owns the nodes; without the password others may read them.
#[test]
fn users_and_their_permissions() {
    let store = Store::zookeeper();
    let as_user = |password: &str| {
        let url = store.url.replacen("://", &format!("://locker:{password}@"), 1);
        Call { shown: store.url.clone(), ..run_at(&url) }
    };
    as_user("canary").works();
    // As long as something is there.
    let url = store.url.replacen("://", "://locker:canary@", 1);
    Redlock::new(&["acquire", "-k", "held"]).server(&url).run().expect(0);
    as_user("canary").works();
    as_user("another-canary").fails(77, "PERMISSIONS");
    run_at(&store.url).fails(77, "PERMISSIONS");
    store.redlock(&["status", "X"]).run().expect(0);
}

/// It can have no nodes below it, however long one waits.
#[test]
fn an_ephemeral_node_is_no_lock() {
    const SCRIPT: &str = "import sys; from kazoo.client import KazooClient; zk = KazooClient(sys.argv[1]); zk.start(30); zk.create('/X', ephemeral=True, makepath=True); print('there', flush=True); sys.stdin.read()";
    let store = Store::zookeeper();
    let mut other = python(SCRIPT);
    other.arg(store.url.trim_start_matches("zk://")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = other.spawn().expect("Python");
    let mut words = other.stdout.take().expect("its words");
    words.read_exact(&mut [0; 6]).expect("the node");
    for key in ["X", "X/a"] {
        for wait in [&[][..], &["--wait"]] {
            let args = [&["run", "-k", key][..], wait, &["--", "echo", "ran"]].concat();
            let refused = store.redlock(&args).run().expect(78);
            assert!(
                refused.line().contains("choose another key") && refused.stdout.is_empty(),
                "{refused:?}"
            );
        }
    }
    drop(other.stdin.take());
    assert!(other.wait().expect("its end").success());
}

#[test]
fn what_zookeeper_cannot_do_is_refused() {
    let url = format!("zk://127.0.0.1:{}", free_port());
    for (args, words) in [(&["--ttl", "900ms"][..], "use 1s or longer"), (&["--replicas", "1"], "replicas")] {
        let args = [&["run", "-k", "X"][..], args, &["--", "echo", "ran"]].concat();
        let refused = Redlock::new(&args).server(&url).run().expect(78);
        assert!(refused.line().contains(words), "{refused:?}");
    }
    // The server says how long a session may live.
    let lines = "maxSessionTimeout=10000\n";
    let short = ZooKeeper::with(1, &Settings { lines, ..Settings::default() });
    let store = Store::own_zookeeper(short);
    for options in [&["--ttl", "30s"][..], &["--ttl", "5s", "--min-hold", "20s"]] {
        for command in ["run", "acquire"] {
            let job: &[&str] = if command == "run" { &["--", "echo", "ran"] } else { &[] };
            let refused = store.redlock(&[&[command, "-k", "X"][..], options, job].concat()).run().expect(78);
            assert!(refused.line().contains("10000 ms at most"), "{refused:?}");
            assert!(refused.stdout.is_empty() && store.status("X")["holders"][0].is_null());
        }
    }
    store.redlock(&["run", "-k", "X", "--ttl", "10s", "--min-hold", "1s", "--", "true"]).run().expect(0);
    let found = store.redlock(&["doctor", "--json"]).run().expect(1);
    assert!(found.stdout.contains("maxSessionTimeout"), "{found:?}");
}

/// One server grants less than another one did: it is left for that.
#[test]
fn servers_with_other_limits() {
    let first_lines = "maxSessionTimeout=10000\n";
    let mut store =
        Store::own_zookeeper(ZooKeeper::with(2, &Settings { first_lines, ..Settings::default() }));
    let addresses = [0, 1].map(|number| store.zookeeper_servers().servers[number].address.clone());
    let (_, chroot) = store.url.rsplit_once('/').expect("a chroot");
    let [less, more] = addresses.map(|address| format!("zk://{address}/{chroot}"));
    let token = store.redlock(&["acquire", "-k", "X", "--ttl", "30s"]).server(&more).run().expect(0).stdout;
    let renew = ["renew", "-k", "X", "--ttl", "30s", "--token", token.trim()];
    // They begin with a random server.
    for _ in 0..10 {
        store.redlock(&renew).run().expect(0);
    }
    let refused = store.redlock(&renew).server(&less).run().expect(69);
    assert!(refused.line().contains("see maxSessionTimeout"), "{refused:?}");
}

/// A session keeps the timeout that it was made with.
#[test]
fn a_renewal_with_another_ttl_says_so() {
    let store = Store::zookeeper();
    let token = store.redlock(&["acquire", "-k", "X", "--ttl", "10s"]).run().expect(0).stdout;
    let renew = |ttl: &str| store.redlock(&["renew", "-k", "X", "--token", token.trim(), "--ttl", ttl]).run();
    renew("10s").expect(0);
    let refused = renew("20s").expect(78);
    assert!(refused.line().contains("use --ttl 10000ms"), "{refused:?}");
}

#[test]
fn doctor_says_what_is_there() {
    let store = Store::zookeeper();
    let found = store.redlock(&["doctor", "--json"]).run().expect(0);
    for word in ["\"version\"", "\"locking\"", "\"sessions\"", "one server is named", "standalone"] {
        assert!(found.stdout.contains(word), "{word}: {found:?}");
    }
    let gone = Redlock::new(&["doctor"]).server(&format!("zk://127.0.0.1:{}", free_port())).run().expect(1);
    assert!(gone.stdout.contains("connection refused"), "{gone:?}");
}
