//! Servers of a quorum die, hang and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::harness::{
    End, Fault, Proxy, Redis, Redlock, Store, Witness, eventually, fits, in_ms, is_within, slowed, ttl, urls,
    within,
};

/// So that a restarted server knows what it promised.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const WORKERS: usize = 20;
/// As many of five may fail.
const MINORITY: usize = 2;

pub fn run(store: &Store, options: &[&str], job: &[&str]) -> Redlock {
    store.redlock(&[&["run", "--key", "X"], options, &["--"], job].concat())
}

/// On how many servers the key is.
pub fn held_on(members: &[Redis], key: &str) -> usize {
    members.iter().filter(|member| !member.cli(&["get", key]).is_empty()).count()
}

/// At most a minority fails at a time, in any way and order. For longer than the default by REDLOCK_TEST_SECONDS.
#[test]
fn a_minority_fails_all_the_time() {
    let seconds = env::var("REDLOCK_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut store = Store::quorum(5, &DURABLE);
    let witness = Witness::new();
    let job = witness.job("0.005");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    let proxies: Vec<Proxy> = store.members.iter().map(|member| Proxy::to(member.port)).collect();
    let url = proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(" ");
    let over = AtomicBool::new(false);
    let ends: Mutex<BTreeMap<i32, usize>> = Mutex::default();
    let served: Mutex<Vec<usize>> = Mutex::new(vec![0; WORKERS]);
    let (mut faults, mut longest) = (BTreeMap::<&str, usize>::new(), Duration::ZERO);
    thread::scope(|scope| {
        for place in 0..WORKERS {
            let (url, job, over, ends, served) = (&url, &job, &over, &ends, &served);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let lock = ["run", "--key", "X", "--wait", "20s", "--ttl", "2s", "--quiet", "--"];
                    let ended = Redlock::new(&[&lock[..], job].concat()).server(url).run();
                    *ends.lock().expect("the ends").entry(ended.code()).or_default() += 1;
                    served.lock().expect("who was served")[place] += usize::from(ended.code() == 0);
                }
            });
        }
        let _end = End(&over);
        let start = Instant::now();
        let mut down: Vec<(usize, &str)> = Vec::new();
        let (mut entries, mut last) = (0, Instant::now());
        let served_enough =
            || ends.lock().expect("the ends").get(&0).is_some_and(|served| *served > seconds as usize);
        // A busy machine serves fewer, and gets the time for as many.
        while start.elapsed() < Duration::from_secs(seconds)
            || (!served_enough() && is_within(Duration::from_secs(2 * seconds), start))
        {
            thread::sleep(Duration::from_millis(random.u64(50..400)));
            let now = witness.entries();
            if now > entries {
                (entries, last) = (now, Instant::now());
            }
            longest = longest.max(last.elapsed());
            if down.len() == MINORITY || (!down.is_empty() && random.bool()) {
                let (index, fault) = down.swap_remove(random.usize(..down.len()));
                mend(&mut store.members[index], &proxies[index], fault);
                continue;
            }
            let up: Vec<usize> =
                (0..5).filter(|index| down.iter().all(|(other, _)| other != index)).collect();
            let index = up[random.usize(..up.len())];
            let fault = ["killed", "hung", "cut off"][random.usize(..3)];
            match fault {
                "killed" => store.members[index].kill(),
                "hung" => store.members[index].pause(),
                _ => proxies[index].set(Fault::Stall),
            }
            down.push((index, fault));
            *faults.entry(fault).or_default() += 1;
        }
        for (index, fault) in down {
            mend(&mut store.members[index], &proxies[index], fault);
        }
    });
    let (ends, served) = (ends.into_inner().expect("the ends"), served.into_inner().expect("who was served"));
    println!(
        "seed {seed}: {seconds} s, faults {faults:?}, ends by exit status {ends:?}, served {served:?}, \
         {} overlaps, longest pause {longest:?}",
        witness.overlaps().len()
    );
    witness.assert_alone();
    assert!(faults.values().sum::<usize>() > 0, "nothing was done to the servers");
    assert!(fits(longest, Duration::from_secs(5)), "nobody got in for {longest:?}");
    assert!(ends.get(&0).is_some_and(|served| *served > seconds as usize), "no progress: {ends:?}");
    // On a busy host a wait may run out, a grant come too late, or a lease end.
    assert!(ends.keys().all(|end| [0, 69, 75, 79].contains(end)), "{ends:?}");
}

fn mend(member: &mut Redis, proxy: &Proxy, fault: &str) {
    match fault {
        "killed" => member.restart(),
        "hung" => member.resume(),
        _ => {
            proxy.set(Fault::None);
            proxy.cut();
        }
    }
}

#[test]
fn a_majority_is_down() {
    let mut store = Store::quorum5();
    let witness = Witness::new();
    let job = witness.job("60");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    let holder = run(&store, &["--ttl", "3s"], &job).spawn();
    eventually(Duration::from_secs(10), "the job", || witness.is_occupied());
    store.members[0].kill();
    store.members[1].kill();
    store.members[2].pause();
    let start = Instant::now();
    let refused = run(&store, &["--ttl", &ttl(800)], &["echo", "ran"]).run().expect(69);
    assert_eq!(refused.stdout, "");
    assert!(refused.line().contains("a majority: 2 of 5 servers answered"), "{refused:?}");
    assert!(
        refused.line().contains(&format!("{}: connection refused", store.members[0].url())),
        "{refused:?}"
    );
    assert!(
        refused.line().contains(&format!("{}: no answer in time", store.members[2].url())),
        "{refused:?}"
    );
    // The lease was renewed at the latest before the servers failed.
    eventually(Duration::from_secs(3), "the death of the job", || !witness.is_occupied());
    within(Duration::from_secs(3), start);
    let lost = holder.finish().expect(79);
    assert!(lost.stderr.contains("lost 'X'"), "{lost:?}");
}

/// Also at the first contact, where nothing is known of it.
#[test]
fn a_hung_server_costs_nothing() {
    let store = Store::quorum5();
    let took = || {
        let start = Instant::now();
        run(&store, &[], &["true"]).run().expect(0);
        start.elapsed()
    };
    // In turn, as the machine may be busy in one half of the time.
    let (mut healthy, mut hung): (Vec<Duration>, Vec<Duration>) = (0..15)
        .map(|_| {
            let healthy = took();
            store.members[3].pause();
            let hung = took();
            store.members[3].resume();
            (healthy, hung)
        })
        .unzip();
    healthy.sort_unstable();
    hung.sort_unstable();
    let (healthy, hung) = (healthy[7], hung[7]);
    println!("{healthy:?} with all, {hung:?} with one hung");
    // The harness looks every 5 ms for the end.
    assert!(hung < healthy * 2 + Duration::from_millis(20), "{healthy:?} with all, {hung:?} with one hung");
    // It carries out everything in the end, and nothing stays.
    eventually(Duration::from_secs(5), "the lock is free", || held_on(&store.members, "X") == 0);
}

/// What a minority granted is given back before the process ends, also by a server that hung meanwhile.
#[test]
fn a_refused_take_leaves_nothing() {
    let store = Store::quorum5();
    for member in &store.members[..3] {
        member.cli(&["set", "X", "another", "px", "60000"]);
    }
    store.members[4].pause();
    run(&store, &["--ttl", "60s"], &["echo", "ran"]).run().expect(75);
    assert_eq!(store.members[3].cli(&["get", "X"]), "");
    store.members[4].resume();
    eventually(Duration::from_secs(5), "nothing is left", || {
        store.members[4].cli(&["ping"]) == "PONG" && store.members[4].cli(&["get", "X"]).is_empty()
    });
}

/// A waiter takes with one owner token again and again. What it gave back in vain must not undo, carried out
/// late, what it was granted since.
#[test]
fn a_late_cancel_undoes_nothing() {
    let mut store = Store::quorum3();
    let proxy = Proxy::to(store.members[0].port);
    let url = format!("{} {} {}", proxy.url(), store.members[1].url(), store.members[2].url());
    let witness = Witness::new();
    let job = witness.job("3");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    // The servers learn the scripts.
    Redlock::new(&["run", "--key", "X", "--", "true"]).server(&url).run().expect(0);
    store.members[2].kill();
    store.members[1].cli(&["set", "X", "another", "px", "1000"]);
    let asked = || store.members[1].commandstats()["evalsha"];
    let before = asked();
    proxy.set(Fault::Late(Duration::from_millis(2500)));
    let args = [&["run", "--key", "X", "--wait", "5m", "--ttl", "10s", "-q", "--"][..], &job].concat();
    let waiter = Redlock::new(&args).server(&url).spawn();
    eventually(Duration::from_secs(5), "it asked", || asked() > before);
    proxy.set(Fault::None);
    eventually(Duration::from_secs(15), "the job", || witness.is_occupied());
    while witness.is_occupied() {
        let value = store.members[0].cli(&["get", "X"]);
        assert!(!value.is_empty() || !witness.is_occupied(), "one server lost the lock");
    }
    waiter.finish().expect(0);
}

/// A server that hangs, and a job that ends while the others have not answered its renewal yet: that they will
/// answer is waited for.
#[test]
fn a_renewal_on_its_way_is_waited_for() {
    let store = Store::quorum3();
    let proxies: Vec<Proxy> = store.members.iter().map(|member| Proxy::to(member.port)).collect();
    let url = proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(" ");
    // An eighth of it is the time for a server to answer, or the lock is not acquired.
    let args = ["run", "--key", "X", "--ttl", &ttl(6000), "--", "cat"];
    let holder = Redlock::new(&args).server(&url).open_stdin().spawn();
    eventually(Duration::from_secs(20), "the lock is on all servers", || held_on(&store.members, "X") == 3);
    store.members[2].pause();
    let asked = || store.members[..2].iter().map(|member| member.commandstats()["evalsha"]).sum::<u64>();
    let before = asked();
    proxies.iter().for_each(|proxy| proxy.set(Fault::Delay(Duration::from_millis(300))));
    eventually(slowed(10_000), "a renewal", || asked() > before);
    let ended = holder.let_go().expect(0);
    assert_eq!(ended.stderr, "");
    assert_eq!(held_on(&store.members[..2], "X"), 0);
}

#[test]
fn a_server_that_returns_counts_again() {
    let mut store = Store::quorum5();
    let witness = Witness::new();
    store.members[0].kill();
    store.members[1].kill();
    let folder = witness.folder();
    let job = ["sh", "-c", "cd \"$0\"; echo > in; until [ -e go ]; do sleep 0.02; done", &folder];
    let lease = slowed(2000);
    let holder = run(&store, &["--ttl", &in_ms(lease)], &job).spawn();
    eventually(Duration::from_secs(10), "the job", || witness.file("in").exists());
    store.members[0].restart();
    store.members[1].restart();
    eventually(Duration::from_secs(5), "the lock is on all servers", || held_on(&store.members, "X") == 5);
    // Under the same fencing token.
    let fence = |member: &Redis| member.cli(&["hget", "redlock:{X}:state", "fence"]);
    let fences: BTreeSet<String> = store.members.iter().map(fence).collect();
    assert_eq!(fences.len(), 1, "{fences:?}");
    store.members[3].kill();
    store.members[4].pause();
    // Longer than a lease lives without renewals.
    thread::sleep(lease + Duration::from_millis(500));
    run(&store, &[], &["true"]).run().expect(75);
    std::fs::write(witness.file("go"), "").expect("a file");
    let ended = holder.finish().expect(0);
    assert_eq!(ended.stderr, "");
}

/// Also when one of those who answer first does not know of the lock.
#[test]
fn a_holder_is_shown() {
    let store = Store::quorum3();
    let holder = store.hold("X", &["--ttl", "30s"]);
    // Where it was not granted in time, the next renewal takes it.
    eventually(Duration::from_secs(20), "the lock is on all servers", || held_on(&store.members, "X") == 3);
    store.members[1].cli(&["flushall"]);
    let slow = Proxy::to(store.members[2].port);
    slow.set(Fault::Delay(Duration::from_millis(300)));
    let url = [store.members[0].url(), store.members[1].url(), slow.url()].join(" ");
    let shown = || Redlock::new(&["status", "X", "--json"]).server(&url).run().expect(0).stdout;
    let fence = store.members[0].cli(&["hget", "redlock:{X}:state", "fence"]);
    assert!(shown().contains(&fence), "{}", shown());
    // It has given more tokens than the others.
    let lock = store.members[0].cli(&["get", "X"]);
    let lease = store.members[0].cli(&["get", "redlock:{X}:lease:X"]);
    store.members[1].cli(&["set", "X", &lock, "px", "60000"]);
    store.members[1].cli(&["hset", "redlock:{X}:state", "fence", "9000000000000000"]);
    store.members[1].cli(&["set", "redlock:{X}:lease:X", &lease]);
    assert!(shown().contains(&fence), "{}", shown());
    holder.let_go().expect(0);
}

/// The servers give different tokens, as one was granted by another clock: the highest is used, and known to a
/// majority before.
#[test]
fn the_highest_fencing_token_counts() {
    for options in [&[][..], &["--shared"]] {
        let store = Store::quorum3();
        let high = 9_000_000_000_000_000_u64;
        store.members[0].cli(&["hset", "redlock:{X}:state", "fence", &high.to_string()]);
        let fence_without = |server: usize| -> u64 {
            store.members[server].pause();
            let ended = run(&store, options, &["sh", "-c", "echo $REDLOCK_FENCE"]).run().expect(0);
            store.members[server].resume();
            ended.stdout.trim().parse().expect("a fencing token")
        };
        assert_eq!(fence_without(2), high + 1);
        assert_eq!(fence_without(0), high + 2);
        assert_eq!(fence_without(1), high + 3);
    }
}

/// Then nobody can say whether they are independent.
#[test]
fn a_user_may_lack_the_right_to_ask() {
    let store = Store::quorum3();
    for member in &store.members {
        assert_eq!(member.cli(&["acl", "setuser", "default", "-info", "-role"]), "OK");
    }
    assert_eq!(run(&store, &[], &["true"]).run().expect(0).stderr, "");
}

#[test]
fn one_server_twice_is_refused() {
    let store = Store::quorum3();
    let port = store.members[0].port;
    // Both have to answer, for a majority.
    store.members[1].pause();
    let url = format!("redis://127.0.0.1:{port} redis://localhost:{port} {}", store.members[1].url());
    let refused = Redlock::new(&["run", "--key", "X", "--", "echo", "ran"]).server(&url).run().expect(78);
    assert_eq!(refused.stdout, "");
    let names = format!("redis://127.0.0.1:{port} and redis://localhost:{port} cannot be used");
    assert!(refused.line().contains(&names), "{refused:?}");
    assert_eq!(store.members[0].cli(&["get", "X"]), "");
}

#[test]
fn a_replica_is_refused() {
    let master = Redis::start();
    let port = master.port.to_string();
    let replica = Redis::with(&["--replicaof", "127.0.0.1", &port, "--replica-read-only", "no"]);
    let other = Redis::start();
    let members = [master, replica, other];
    // Its vote is wanted, for a majority: one that comes too late does not count.
    members[2].pause();
    let refused =
        Redlock::new(&["run", "--key", "X", "--", "echo", "ran"]).server(&urls(&members)).run().expect(78);
    assert_eq!(refused.stdout, "");
    let says = format!("{} cannot be used: it is a replica of 127.0.0.1:{port}", members[1].url());
    assert!(refused.line().contains(&says), "{refused:?}");
}

#[test]
fn what_a_quorum_cannot_do() {
    let store = Store::quorum3();
    let refused = run(&store, &["--permits", "2"], &["echo", "ran"]).run().expect(78);
    assert!(refused.line().contains("does not bound the total"), "{refused:?}");
    let even = Store::quorum(2, &[]);
    let warned = run(&even, &[], &["true"]).run().expect(0);
    assert!(warned.line().contains("2 servers survive no more failures than 1"), "{warned:?}");
    assert_eq!(run(&even, &["-q"], &["true"]).run().expect(0).stderr, "");
}

/// What this process may have is no matter of the configuration: with more it works. What some servers granted is
/// released when there are no descriptors for the others, or for anything else.
#[test]
fn too_few_descriptors() {
    let store = Store::quorum5();
    let program = env!("CARGO_BIN_EXE_redlock");
    let mut refused = 0;
    for most in (6..20).chain(12..20).chain(12..20).chain([64]) {
        let script = format!("ulimit -n {most}; exec \"$0\" run -k X --connect-timeout 2s -- true");
        let ended = store.reached_by(Redlock::under("bash", &["-c", &script, program])).run();
        match ended.code() {
            0 => assert_eq!(ended.stderr, "", "{most}"),
            69 => refused += usize::from(!ended.line().is_empty()),
            _ => panic!("{most}: {ended:?}"),
        }
        // A server may have the release, and not have carried it out yet.
        eventually(Duration::from_secs(5), &format!("{ended:?}"), || held_on(&store.members, "X") == 0);
        assert!(most < 64 || ended.code() == 0, "{ended:?}");
    }
    assert!(refused > 0);
}
