//! Members of etcd die, hang, start anew or lose their leader; users and certificates that are not the right ones.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::failing_call::Call;
use crate::harness::{
    Authority, Etcd, Fault, Proxy, Redis, Redlock, Running, Store, Valid, eventually, free_port, hold_one,
    namespaces, python,
};
use crate::takeover::Takeover;
use crate::undisturbed::Undisturbed;

fn etcd(scene: &mut Takeover) -> &mut Etcd {
    scene.store.etcd_members()
}

/// The job is dead by the fence, and the second gets in when etcd goes on.
#[test]
fn hung() {
    let mut scene = Takeover::new(Store::own_etcd(Etcd::start()));
    scene.fault(|scene| etcd(scene).members[0].pause());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    etcd(&mut scene).members[0].resume();
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("lost 'X'"), "{first:?}");
}

#[test]
fn killed_for_good() {
    let mut scene = Takeover::new(Store::own_etcd(Etcd::start()));
    scene.fault(|scene| etcd(scene).members[0].kill());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    etcd(&mut scene).members[0].restart();
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn redlock_is_stopped() {
    let mut scene = Takeover::new(Store::own_etcd(Etcd::start()));
    scene.fault(|scene| scene.first.signal(Signal::SIGSTOP));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    scene.first.signal(Signal::SIGCONT);
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// A revocation that is held up on its way would end the lease of a later grant: there is one after a busy attempt only when
/// the call waits.
#[test]
fn a_busy_attempt_revokes_no_lease() {
    let mut store = Store::own_etcd(Etcd::start());
    let holder = store.hold("X", &[]);
    let waiter = store.wait_in_line("X", "served", &[]);
    store.await_waiters("X", 1);
    assert_eq!(store.etcd_members().members[0].requests("LeaseRevoke"), 0);
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}

/// As when the cable is pulled: nothing comes back, no connection is closed.
#[test]
fn cut_off() {
    if !namespaces() {
        return;
    }
    let mut scene = Takeover::new(Store::own_etcd(Etcd::on_hosts(1)));
    scene.fault(|scene| etcd(scene).network().cut_off(0));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    etcd(&mut scene).network().join(0);
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// It is the only one that the first knows; the others choose a new leader, and the second one gets in there.
#[test]
fn a_leader_is_cut_off_from_the_others() {
    if !namespaces() {
        return;
    }
    let mut store = Store::own_etcd(Etcd::on_hosts(3));
    let leader = store.etcd_members().leader();
    let of_first = format!("etcd://{}", store.etcd_members().members[leader].address);
    let mut scene = Takeover::through(store, of_first);
    scene.fault(|scene| etcd(scene).network().cut_off_from_others(leader));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), 79);
}

fn undisturbed(etcd: Etcd) -> Undisturbed {
    Undisturbed::new(Store::own_etcd(etcd), "12", &["--ttl", "15s"])
}

#[test]
fn restarted() {
    let mut scene = undisturbed(Etcd::start());
    scene.store.etcd_members().members[0].kill();
    scene.store.etcd_members().members[0].restart();
    scene.goes_on();
}

#[test]
fn the_leader_is_killed() {
    let mut scene = undisturbed(Etcd::three());
    let leader = scene.store.etcd_members().leader();
    scene.store.etcd_members().members[leader].kill();
    scene.goes_on();
}

#[test]
fn the_leader_hangs() {
    let mut scene = undisturbed(Etcd::three());
    let leader = scene.store.etcd_members().leader();
    scene.store.etcd_members().members[leader].pause();
    let [_, waited] = scene.goes_on();
    println!("{}", waited.stderr);
}

#[test]
fn the_leader_is_cut_off() {
    if !namespaces() {
        return;
    }
    let mut scene = undisturbed(Etcd::on_hosts(3));
    let leader = scene.store.etcd_members().leader();
    scene.store.etcd_members().network().cut_off(leader);
    scene.goes_on();
}

/// The member that both are connected to.
#[test]
fn the_first_member_hangs() {
    let mut scene = undisturbed(Etcd::three());
    scene.store.etcd_members().members[0].pause();
    scene.goes_on();
}

/// Members without a leader answer nobody, and the lock outlives the job.
#[test]
fn a_majority_is_killed() {
    let mut scene = Takeover::new(Store::own_etcd(Etcd::three()));
    scene.fault(|scene| [1, 2].into_iter().for_each(|number| etcd(scene).members[number].kill()));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    [1, 2].into_iter().for_each(|number| etcd(&mut scene).members[number].restart());
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn one_member_of_three_is_enough_to_be_named_first() {
    let mut etcd = Etcd::three();
    etcd.members[0].kill();
    let store = Store::own_etcd(etcd);
    // The others may have to choose a leader.
    let run = store.redlock(&["run", "-k", "X", "--connect-timeout", "50s", "--", "echo", "ran"]);
    assert_eq!(run.run().expect(0).stdout, "ran\n");
}

/// The first of two waiters meets a member that hangs, and is served first all the same.
fn keeps_its_place(options: &[&str], hang_and_let_go: impl FnOnce(&[Proxy; 2], Running)) {
    let mut store = Store::own_etcd(Etcd::start());
    let port = store.etcd_members().members[0].port;
    let proxies = [Proxy::to(port), Proxy::to(port)];
    let holder = store.hold("X", &[]);
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}", proxies[0].port, proxies[1].port);
    let options = [&["--connect-timeout", "1m"], options].concat();
    let first = store.wait_in_line_at(&url, "X", "first", &options);
    store.await_waiters("X", 1);
    let second = store.wait_in_line("X", "second", &[]);
    store.await_waiters("X", 2);
    hang_and_let_go(&proxies, holder);
    first.finish().expect(0);
    second.finish().expect(0);
    assert_eq!(store.order(), ["first", "second"]);
}

/// With all that time for an attempt the waiter asks another member before its place in the queue has ended.
#[test]
fn the_member_that_grants_the_lock_hangs() {
    keeps_its_place(&[], |proxies, holder| {
        hold_one(proxies, "granted", || drop(holder.let_go().expect(0)));
    });
}

/// The same while the waiter renews the lock that it has already.
#[test]
fn the_member_that_renews_the_first_lock_of_a_waiter_hangs() {
    keeps_its_place(&["--key", "A", "--ttl", "6s"], |proxies, holder| {
        // A renewal looks at the keys of the owner, with this character in the end of the range.
        hold_one(proxies, ";", || {});
        holder.let_go().expect(0);
    });
}

/// The waiter has lost its place and taken another one, and cannot look at who stands before it there.
#[test]
fn a_new_place_is_behind_those_that_came_meanwhile() {
    let mut store = Store::own_etcd(Etcd::start());
    let proxy = Proxy::to(store.etcd_members().members[0].port);
    let held_up = |after: usize, waiter: &mut Running| {
        eventually(Duration::from_secs(20), "a request is held up", || {
            proxy.injected() > after || waiter.has_ended()
        });
        assert!(!waiter.has_ended(), "it did not wait");
        proxy.injected()
    };
    let holder = store.hold("X", &[]);
    let mut waiter = store.wait_in_line_at(&format!("etcd://127.0.0.1:{}", proxy.port), "X", "waiter", &[]);
    store.await_waiters("X", 1);
    proxy.set(Fault::Hold("granted"));
    holder.let_go().expect(0);
    held_up(0, &mut waiter);
    let other = store.hold("X", &["--wait"]);
    let grants = proxy.injected();
    // It asks for its new place with this character in the end of a range, and for the queue with this end of one.
    proxy.set(Fault::Hold(";"));
    let mut looks = held_up(grants, &mut waiter);
    proxy.set(Fault::Hold("X0"));
    for _ in 0..3 {
        looks = held_up(looks, &mut waiter);
    }
    assert!(store.order().is_empty());
    proxy.set(Fault::None);
    other.let_go().expect(0);
    waiter.finish().expect(0);
    assert_eq!(store.order(), ["waiter"]);
}

/// Before each of its transactions somebody else makes a key below that of the lock: that of a lock X/a.
#[test]
fn a_lock_is_acquired_beside_many_below_it() {
    let mut store = Store::own_etcd(Etcd::start());
    let proxy = Proxy::to(store.etcd_members().members[0].port);
    let run = store.redlock(&["run", "-k", "X", "--connect-timeout", "5m", "--", "true"]);
    // A change of the fault lets go what is held up.
    let holds = [Fault::Hold("granted"), Fault::Hold("\"granted")];
    proxy.set(holds[0]);
    let mut run = run.server(&format!("etcd://127.0.0.1:{}", proxy.port)).spawn();
    for number in 0..10 {
        eventually(Duration::from_secs(20), "it asks for the lock", || {
            proxy.injected() > number || run.has_ended()
        });
        assert!(store.etcd_members().ctl(&["put", &format!("X/a/{number}"), ""]).0);
        proxy.set(holds[(number + 1) % 2]);
    }
    assert!(run.has_ended(), "it never gets the lock");
    run.finish().expect(0);
}

/// No request came to the first one, so the answer of the other one counts.
#[test]
fn a_wrong_token_releases_nothing_beside_a_dead_member() {
    let store = Store::etcd();
    let url = store.url.replacen("://", &format!("://127.0.0.1:{},", free_port()), 1);
    let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
    for (token, code) in [("WRONG", 1), (token.trim(), 0), (token.trim(), 1)] {
        store.redlock(&["release", "-k", "X", "--token", token]).server(&url).run().expect(code);
    }
}

#[test]
fn nobody_there() {
    run_at(&format!("etcd://127.0.0.1:{}", free_port())).fails(69, "connection refused");
}

#[test]
fn nobody_leads() {
    let mut etcd = Etcd::three();
    [1, 2].into_iter().for_each(|number| etcd.members[number].kill());
    let url = format!("etcd://{}", etcd.members[0].address);
    // It takes an election's time until it knows.
    eventually(Duration::from_secs(20), "it has lost its leader", || {
        run_at(&url).redlock.run().stderr.contains("no leader")
    });
    run_at(&url).fails(69, "it has no leader");
}

#[test]
fn no_answer_to_a_request() {
    let etcd = Etcd::start();
    etcd.members[0].pause();
    run_at(&etcd.url()).fails(69, "no answer in time");
}

#[test]
fn something_else_is_there() {
    let redis = Redis::start();
    run_at(&format!("etcd://127.0.0.1:{}", redis.port)).fails(69, "etcd");
    let authority = Authority::new();
    let encrypted = Etcd::with_tls(&authority.sign(&["127.0.0.1"], Valid::Now));
    run_at(&encrypted.url().replace("etcds:", "etcd:")).fails(69, "etcds://");
    let plain = Etcd::start();
    run_at(&plain.url().replace("etcd:", "etcds:")).trusting(&authority).fails(69, "TLS");
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
    let etcd = Etcd::with_tls(&authority.sign(&["127.0.0.1"], Valid::Now));
    let ours = authority.sign(&["client"], Valid::Now);
    run_at(&etcd.url()).trusting(&authority).showing(&ours).works();
    run_at(&etcd.url()).trusting(&authority).fails(77, "certificate");
    run_at(&etcd.url())
        .trusting(&Authority::new())
        .showing(&ours)
        .fails(69, "not signed by an authority in --tls-ca");
    let other = Etcd::with_tls(&authority.sign(&["elsewhere.example"], Valid::Now));
    run_at(&other.url()).trusting(&authority).showing(&ours).fails(69, "for other names (elsewhere.example)");
    let expired = Etcd::with_tls(&authority.sign(&["127.0.0.1"], Valid::UntilYear(2020)));
    run_at(&expired.url()).trusting(&authority).showing(&ours).fails(69, "has expired");
}

#[test]
fn users_and_their_permissions() {
    let etcd = Etcd::start();
    for args in [
        &["user", "add", "root:rootword"][..],
        &["role", "add", "root"],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix=true", "readwrite", "ci/"],
        &["user", "add", "locker:canary"],
        &["user", "grant-role", "locker", "locks"],
        &["auth", "enable"],
    ] {
        assert!(etcd.ctl(args).0, "{args:?}");
    }
    let [url, below] = [etcd.url(), format!("{}/ci", etcd.url())];
    run_at(&url).fails(77, "it wants a user");
    let as_user = |url: &str, user: &str| Call {
        shown: url.to_owned(),
        ..run_at(&url.replacen("://", &format!("://{user}:canary@"), 1))
    };
    as_user(&below, "nobody").fails(77, "user or password is wrong");
    as_user(&below, "root").fails(77, "user or password is wrong");
    as_user(&url, "locker").fails(77, "PERMISSIONS");
    as_user(&below, "locker").works();
}

#[test]
fn what_etcd_cannot_do_is_refused() {
    let url = format!("etcd://127.0.0.1:{}", free_port());
    for (args, words) in [
        (&["--ttl", "1500ms"][..], "--ttl 1.5s"),
        (&["--ttl", "1s"], "use 2s or longer"),
        (&["--replicas", "1"], "replicas"),
    ] {
        let args = [&["run", "-k", "X"][..], args, &["--", "echo", "ran"]].concat();
        let refused = Redlock::new(&args).server(&url).run().expect(78);
        assert!(refused.line().contains(words), "{refused:?}");
    }
}

/// A lease in etcd keeps the TTL that it was made with.
#[test]
fn a_renewal_with_another_ttl_says_so() {
    let store = Store::etcd();
    let token = store.redlock(&["acquire", "-k", "X", "--ttl", "10s"]).run().expect(0).stdout;
    let renew = |ttl: &str| store.redlock(&["renew", "-k", "X", "--token", token.trim(), "--ttl", ttl]).run();
    renew("10s").expect(0);
    let refused = renew("20s").expect(78);
    assert!(refused.line().contains("use --ttl 10s"), "{refused:?}");
}

/// Somebody else has put so many keys there that the lock is not shown with all of them.
#[test]
fn a_queue_that_is_not_shown_to_its_end() {
    const SCRIPT: &str = "import base64, json, sys, urllib.request as u
b = lambda text: base64.b64encode(text.encode()).decode()
for page in range(201):
    put = [{'requestPut': {'key': b('X/%x' % (4096 + 100 * page + i)), 'value': ''}} for i in range(100)]
    u.urlopen(u.Request(sys.argv[1], json.dumps({'success': put}).encode())).read()";
    let mut store = Store::own_etcd(Etcd::start());
    let gateway = format!("http://{}/v3/kv/txn", store.etcd_members().members[0].address);
    assert!(python(SCRIPT).arg(gateway).status().expect("Python").success());
    let shown = store.redlock(&["status", "X"]).run().expect(69);
    assert!(shown.line().contains("this is not all") && shown.line().contains("'X'"), "{shown:?}");
    assert!(shown.stdout.contains("another program"), "{shown:?}");
}

#[test]
fn doctor_says_what_is_there() {
    let store = Store::etcd();
    let found = store.redlock(&["doctor", "--json"]).run().expect(0);
    for word in ["\"version\"", "\"locking\"", "15247", "the only member"] {
        assert!(found.stdout.contains(word), "{word}: {found:?}");
    }
    let gone = Redlock::new(&["doctor"]).server(&format!("etcd://127.0.0.1:{}", free_port())).run().expect(1);
    assert!(gone.stdout.contains("connection refused"), "{gone:?}");
}

/// A loop that asks once a second, without waiting, leaves nothing behind in etcd.
#[test]
fn a_busy_lock_leaves_no_lease() {
    let mut store = Store::own_etcd(Etcd::start());
    let holder = store.hold("X", &[]);
    let leases = |store: &mut Store| store.etcd_members().ctl(&["lease", "list"]).1.lines().count();
    let before = leases(&mut store);
    for _ in 0..3 {
        store.redlock(&["run", "-k", "X", "--ttl", "1h", "--", "true"]).run().expect(75);
        store.redlock(&["acquire", "-k", "Y", "-k", "X", "--ttl", "1h"]).run().expect(75);
    }
    assert_eq!(leases(&mut store), before);
    holder.let_go().expect(0);
}

/// One of several locks is lost while the others are waited for: all of them are asked for again, with the same leases. A
/// revocation that is held up on its way would end the lease of the job that runs by then.
#[test]
fn starting_over_revokes_no_lease() {
    let mut store = Store::own_etcd(Etcd::start());
    let holder = store.hold("B", &[]);
    let waiter =
        store.redlock(&["run", "-k", "A", "-k", "B", "--ttl", "3s", "--wait", "--", "echo", "ran"]).spawn();
    store.await_waiters("B", 1);
    let created = |store: &mut Store| {
        let seen = store.etcd_members().ctl(&["get", "A/", "--prefix", "--write-out=fields"]).1;
        seen.lines().find(|line| line.contains("CreateRevision")).map(str::to_owned)
    };
    let first = created(&mut store);
    assert!(first.is_some());
    store.etcd_members().ctl(&["del", "A/", "--prefix"]);
    eventually(Duration::from_secs(20), "it has A again", || {
        let now = created(&mut store);
        now.is_some() && now != first
    });
    store.await_waiters("B", 1);
    assert_eq!(store.etcd_members().members[0].requests("LeaseRevoke"), 0);
    holder.let_go().expect(0);
    assert_eq!(waiter.finish().expect(0).stdout, "ran\n");
}
