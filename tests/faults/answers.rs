//! Answers that never came, or were none, or said no.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{
    Etcd, Fault, Folder, Proxy, Redis, Redlock, Store, ZooKeeper, await_file, eventually, in_ms, slowed,
    within,
};

fn behind_proxy() -> (Store, Proxy) {
    let store = Store::redis();
    // The scripts are known, so that the take is one round trip.
    store.redlock(&["run", "-k", "warm", "--", "true"]).run().expect(0);
    let proxy = Proxy::to(store.redis.as_ref().map_or(0, |redis| redis.port));
    (store, proxy)
}

/// A take whose answer was cut off asks again and finds itself, at every byte.
#[test]
fn answer_cut_at_every_byte() {
    for at in 0..48 {
        let (store, proxy) = behind_proxy();
        proxy.set(Fault::CutReplyAt(at));
        Redlock::new(&["run", "-k", "X", "--", "true"]).server(&proxy.url()).run().expect(0);
        assert!(proxy.injected() > 0);
        assert!(store.status("X")["holders"][0].is_null());
    }
}

/// Nobody knows the owner token then. The keeper that `acquire` left asks again while no answer comes.
#[test]
fn no_answer_to_the_keeper_of_a_killed_acquire() {
    let (store, proxy) = behind_proxy();
    proxy.set(Fault::Mute);
    let pid = std::process::id().to_string();
    let args = ["acquire", "-k", "X", "--ttl", "60s", "--while-pid", &pid];
    let acquire = Redlock::new(&args).server(&proxy.url()).spawn();
    store.await_holder("X");
    acquire.signal(Signal::SIGKILL);
    acquire.finish().expect(-9);
    let earlier = proxy.injected();
    // The keeper's second one at the earliest.
    eventually(Duration::from_secs(20), "more attempts", || proxy.injected() > earlier + 1);
    assert!(store.status("X")["holders"][0].is_object());
    proxy.set(Fault::None);
    eventually(Duration::from_secs(20), "a free lock", || store.status("X")["holders"][0].is_null());
}

/// The next in line has the lock then. Asked again the store says so, which is no loss.
fn no_answer_to_a_release(store: &Store, port: u16) {
    let proxy = Proxy::to(port);
    let url = store.url.replacen(&format!(":{port}"), &format!(":{}", proxy.port), 1);
    // The scripts are known, so that the release is one request.
    store.redlock(&["run", "-k", "warm", "--", "true"]).run().expect(0);
    let args = ["run", "--key", "X", "--wait", "--", "cat"];
    let first = Redlock::new(&args).server(&url).open_stdin().spawn();
    store.await_holder("X");
    let second = store.redlock(&args).open_stdin().spawn();
    store.await_waiters("X", 1);
    proxy.set(Fault::Mute);
    let pid = second.pid();
    let end = std::thread::spawn(|| first.let_go());
    eventually(slowed(10_000), "the next one holds the lock", || {
        store.status("X")["holders"][0]["pid"] == pid
    });
    proxy.set(Fault::None);
    let first = end.join().expect("the end of the first").expect(0);
    assert!(!first.stderr.contains("lost"), "{first:?}");
    second.let_go().expect(0);
}

#[test]
fn no_answer_to_a_release_of_redis() {
    let store = Store::redis();
    no_answer_to_a_release(&store, store.redis.as_ref().map_or(0, |redis| redis.port));
}

#[test]
fn no_answer_to_a_release_of_etcd() {
    let mut store = Store::own_etcd(Etcd::start());
    let port = store.etcd_members().members[0].port;
    no_answer_to_a_release(&store, port);
}

#[test]
fn no_answer_to_a_release_of_zookeeper() {
    let mut store = Store::own_zookeeper(ZooKeeper::start());
    let port = store.zookeeper_servers().servers[0].port;
    no_answer_to_a_release(&store, port);
}

/// Breaking a lock twice frees it beside its job, and the request comes twice when the answer to it was lost.
#[test]
fn no_answer_to_a_break() {
    for mode in [&[][..], &["--shared"]] {
        let (store, proxy) = behind_proxy();
        let holder = store.hold("X", &[&["--ttl", "10m"], mode].concat());
        proxy.set(Fault::LoseReplyTo("stuck since 02:00"));
        let args = ["break", "-k", "X", "--yes", "--reason", "stuck since 02:00"];
        let broken = Redlock::new(&args).server(&proxy.url()).run().expect(0);
        assert_eq!(proxy.injected(), 1);
        assert!(broken.line().contains("broke 'X', held by"), "{broken:?}");
        assert_eq!(store.status("X")["holders"][0]["broken"], true);
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
        // One more call means it.
        let freed = store.redlock(&args).run().expect(0);
        assert!(freed.line().contains("freed 'X'"), "{freed:?}");
        holder.let_go().expect(79);
    }
}

#[test]
fn rubbish_for_an_answer() {
    for rubbish in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*9223372036854775807\r\n",
        "$-7\r\nx\r\n",
        "\u{0}\u{1}\u{2}",
        ":99999999999999999999\r\n",
        "*2\r\n*1\r\n",
    ] {
        let (store, proxy) = behind_proxy();
        proxy.set(Fault::Rubbish(rubbish));
        let run = Redlock::new(&["run", "-k", "X", "--connect-timeout", "1s", "--", "true"])
            .server(&proxy.url())
            .run();
        // Asked again it works; or it is given up in time. Never a crash, never a lock left behind.
        assert!([0, 69, 75].contains(&run.code()), "{rubbish:?}: {run:?}");
        eventually(Duration::from_secs(5), "nothing is held", || store.status("X")["holders"][0].is_null());
    }
}

#[test]
fn a_web_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let run = Redlock::new(&["run", "-k", "X", "--", "true"])
        .server(&format!("redis://127.0.0.1:{port}"))
        .run()
        .expect(69);
    assert!(run.line().contains("does not speak the Redis protocol"), "{run:?}");
}

/// What makes no sense says nothing about a lock, and so not that it is free.
#[test]
fn an_answer_without_sense() {
    for answer in [":0\r\n", "*0\r\n", "+OK\r\n", "*3\r\n$0\r\n\r\n:1\r\n:2\r\n"] {
        let url = format!("redis://{}", parrot(answer));
        let token = "11111111-1111-4111-8111-111111111111";
        for args in [&["status", "X"][..], &["status"], &["break", "-k", "X", "--yes"]] {
            let refused = Redlock::new(args).server(&url).run();
            let line = refused.line();
            assert!(
                refused.code() == 69 && line.contains("makes no sense"),
                "{answer:?} {args:?}: {refused:?}"
            );
            assert_eq!(refused.stdout, "");
        }
        if !answer.starts_with(':') {
            let check = Redlock::new(&["check", "-k", "X", "--token", token]).server(&url).run().expect(69);
            assert!(check.line().contains("makes no sense"), "{answer:?}: {check:?}");
        }
    }
}

/// A server that answers everything with this.
fn parrot(answer: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number").to_string();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            while let Ok(1..) = stream.read(&mut [0; 65536]) {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    address
}

/// A part of it that can be read is not the whole.
#[test]
fn no_sense_in_who_has_the_locks() {
    const GOOD: &str = "*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:7000\r\n";
    let slots = ["+OK\r\n", "*1\r\n*1\r\n:5\r\n"].map(str::to_owned);
    let bad_port = "*2\r\n".to_owned() + GOOD + &GOOD.replace(":7000", ":0");
    for answer in slots.into_iter().chain([bad_port]) {
        let url = format!("redis+cluster://{}", parrot(answer.leak()));
        let doctor = Redlock::new(&["doctor"]).server(&url).run().expect(1);
        assert!(doctor.stdout.contains("its answer makes no sense"), "{doctor:?}");
    }
    for answer in ["+OK\r\n", "*4\r\n$2\r\nip\r\n$1\r\nx\r\n$4\r\nport\r\n$1\r\n0\r\n"] {
        let url = format!("redis+sentinel://{}/mine", parrot(answer));
        let doctor = Redlock::new(&["doctor"]).server(&url).run().expect(1);
        assert!(doctor.stdout.contains("its answer makes no sense"), "{doctor:?}");
    }
}

/// What is no lock does not hide those that are.
#[test]
fn status_of_what_is_no_lock() {
    for store in [Store::redis(), Store::quorum3()] {
        for server in store.redis.iter().chain(&store.members) {
            assert_eq!(server.cli(&["RPUSH", "X", "a"]), "1");
        }
        store.redlock(&["acquire", "-k", "Y"]).run().expect(0);
        let status = store.redlock(&["status", "X"]).run().expect(78);
        assert!(status.line().contains("'X' is not a lock") && status.stdout.is_empty(), "{status:?}");
        if store.redis.is_some() {
            let status = store.redlock(&["status", "X", "Y", "Z"]).run().expect(78);
            assert!(status.line().contains("'X' is not a lock"), "{status:?}");
            let shown: Vec<&str> = status.stdout.lines().filter_map(|line| line.split("  ").next()).collect();
            assert_eq!(shown, ["KEY", "Y", "Z"], "{status:?}");
        }
    }
}

/// A server that accepts and never answers: no start, within --connect-timeout, and when it goes on nothing
/// is left of the take.
#[test]
fn hung_server_carries_out_the_take_in_the_end() {
    let store = Store::redis();
    store.redlock(&["run", "-k", "warm", "--", "true"]).run().expect(0);
    let redis = store.redis.as_ref().expect("a Redis");
    redis.pause();
    let start = Instant::now();
    let args = ["run", "-k", "X", "--connect-timeout", "500ms", "--", "sh", "-c", "echo started"];
    let run = store.redlock(&args).run().expect(69);
    within(Duration::from_secs(3), start);
    assert!(
        run.line().contains("no answer in time") && run.line().contains("may stay locked for up to 30s"),
        "{run:?}"
    );
    assert_eq!(run.stdout, "");
    redis.resume();
    // The take is carried out, and the release behind it.
    eventually(Duration::from_secs(5), "both were carried out", || {
        !redis.cli(&["HGET", "redlock:{X}:state", "fence"]).is_empty()
    });
    eventually(Duration::from_secs(1), "the key is gone", || redis.cli(&["EXISTS", "X"]) == "0");
}

/// As many as one command takes: all of them are cancelled behind the take.
#[test]
fn hung_server_carries_out_the_take_of_many_in_the_end() {
    let store = Store::redis();
    store.redlock(&["run", "-k", "warm", "--", "true"]).run().expect(0);
    let redis = store.redis.as_ref().expect("a Redis");
    redis.pause();
    let keys: Vec<String> = (0..64).map(|number| format!("-kX{number}")).collect();
    let keys = keys.iter().map(String::as_str);
    let args: Vec<&str> = ["run", "--connect-timeout", "500ms"].into_iter().chain(keys).collect();
    store.redlock(&[&args[..], &["--", "true"]].concat()).run().expect(69);
    redis.resume();
    eventually(Duration::from_secs(5), "the take was carried out", || {
        !redis.cli(&["HGET", "redlock:{X63}:state", "fence"]).is_empty()
    });
    eventually(Duration::from_secs(1), "the keys are gone", || redis.cli(&["KEYS", "X*"]).is_empty());
}

/// The connection breaks, and the server reads the request after those of the next connection.
#[test]
fn a_request_on_a_connection_that_broke_takes_no_lock_later() {
    let store = Store::redis();
    store.redlock(&["run", "-k", "warm", "--", "true"]).run().expect(0);
    let redis = store.redis.as_ref().expect("a Redis");
    let proxy = Proxy::to(redis.port);
    let holder = store.hold("X", &[]);
    proxy.set(Fault::ReadLate("EVALSHA"));
    Redlock::new(&["run", "-k", "X", "--", "true"]).server(&proxy.url()).run().expect(75);
    assert!(proxy.injected() > 0, "no connection broke");
    holder.let_go().expect(0);
    proxy.set(Fault::None);
    eventually(Duration::from_secs(5), "the request was read", || proxy.late() == 0);
    assert_eq!(redis.cli(&["EXISTS", "X"]), "0");
}

/// Ctrl-C while the server hangs ends at once.
#[test]
fn interrupted_while_taking() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("a Redis");
    redis.pause();
    let run = store.redlock(&["run", "-k", "X", "--connect-timeout", "60s", "--", "true"]).spawn();
    // Local address, remote address, state, and what was sent and what was not read: see proc_net_tcp(5).
    let own = format!(":{:04X}", redis.port);
    let has_come = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().take(5).collect();
        // Of a socket that listens, the last is the number of connections that were not accepted.
        fields.len() == 5
            && fields[1].ends_with(&own)
            && fields[3] == "01"
            && !fields[4].ends_with(":00000000")
    };
    eventually(Duration::from_secs(20), "the request has come", || {
        std::fs::read_to_string("/proc/net/tcp").is_ok_and(|table| table.lines().any(has_come))
    });
    let start = Instant::now();
    run.signal(Signal::SIGINT);
    let ended = run.finish().expect(-2);
    within(Duration::from_secs(3), start);
    // It is in the server, which carries it out when it wakes up; so is its cancellation, if it can be sent.
    let said = ended.line();
    assert!(said.contains("could not release 'X': cannot reach redis://"), "{said}");
    assert!(said.ends_with("; the lease ends within 30s"), "{said}");
}

/// Its lock is granted, and the server hangs as it looks whether the one taken by hand is held still.
#[test]
fn interrupted_behind_the_grant() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("a Redis");
    let token = store.redlock(&["acquire", "-k", "by-hand", "-t", "10m"]).run().expect(0).stdout;
    let proxy = Proxy::to(redis.port);
    proxy.set(Fault::Delay(Duration::from_secs(2)));
    let args = ["run", "-k", "by-hand", "-k", "X", "-t", "1m", "--connect-timeout", "30s", "--", "true"];
    let run = Redlock::new(&args).server(&proxy.url()).env("REDLOCK_KEY", "by-hand");
    let run = run.env("REDLOCK_TOKEN", token.trim()).spawn();
    eventually(Duration::from_secs(20), "the grant", || redis.cli(&["exists", "X"]) == "1");
    proxy.set(Fault::Hold("EVALSHA"));
    eventually(Duration::from_secs(20), "the look", || proxy.late() > 0);
    run.signal(Signal::SIGINT);
    let ended = run.finish().expect(-2);
    assert!(ended.line().contains("could not release 'X': "), "{ended:?}");
}

/// What servers say no with: exit status, and a word of the line.
#[test]
fn refusals() {
    let refused = |redis: &Redis, prepare: &[&[&str]], code: i32, word: &str| {
        for command in prepare {
            redis.cli(command);
        }
        let run = Redlock::new(&["run", "-k", "X", "--connect-timeout", "1s", "--", "echo", "started"])
            .server(&redis.url())
            .run();
        assert!(run.code() == code && run.line().contains(word) && run.stdout.is_empty(), "{run:?}");
    };
    refused(&Redis::with(&["--requirepass", "canary"]), &[], 77, "NOAUTH");
    refused(&Redis::start(), &[&["HSET", "X", "a", "b"]], 78, "'X' is not a lock");
    refused(&Redis::start(), &[&["CONFIG", "SET", "maxmemory", "1"]], 69, "out of memory");
    refused(&Redis::start(), &[&["REPLICAOF", "127.0.0.1", "1"]], 69, "replica");
    refused(&Redis::start(), &[&["ACL", "SETUSER", "default", "-evalsha"]], 77, "NOPERM");
    refused(&Redis::start(), &[&["ACL", "SETUSER", "default", "-set"]], 77, "permission");
    let full = Redis::with(&["--maxclients", "1"]);
    // The server may not have seen yet that an earlier one has gone.
    let mut only_client = None;
    eventually(Duration::from_secs(5), "the only client", || {
        let mut stream = TcpStream::connect(("127.0.0.1", full.port)).expect("a connection");
        let mut answer = [0; 5];
        let is_let_in = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer)).is_ok();
        only_client = Some(stream).filter(|_| is_let_in && answer == *b"+PONG");
        only_client.is_some()
    });
    refused(&full, &[], 69, "max number of clients");
}

#[test]
fn passwords() {
    let redis = Redis::with(&["--requirepass", "canary"]);
    let url = redis.url();
    let file = crate::harness::Folder::new().path("password");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
    std::fs::write(&file, "canary\n").expect("a password file");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
    let path = file.display().to_string();
    Redlock::new(&["run", "-k", "X", "--password-file", &path, "--", "true"]).server(&url).run().expect(0);
    Redlock::new(&["run", "-k", "X", "--", "true"])
        .server(&url)
        .env("REDISCLI_AUTH", "canary")
        .run()
        .expect(0);
    let wrong = Redlock::new(&["run", "-v", "-k", "X", "--", "true"])
        .server(&url)
        .env("REDISCLI_AUTH", "wrong-canary")
        .run()
        .expect(77);
    assert!(wrong.line().contains("WRONGPASS") && !wrong.stderr.contains("canary"), "{wrong:?}");
    let with_url = url.replace("redis://", "redis://:canary@");
    Redlock::new(&["run", "-k", "X", "--", "true"]).server(&with_url).run().expect(0);
    let refused = Redlock::new(&["run", "-k", "X", "-S", &with_url, "--", "true"]).run().expect(64);
    assert!(!refused.stderr.contains("canary"), "{refused:?}");
}

/// Too few replicas have a lock, and giving it back takes so long.
fn give_back_hangs(master: &Redis, proxy: &Proxy, so_long: Duration) {
    eventually(Duration::from_secs(10), "the replicas are counted", || {
        master.cli(&["client", "list"]).contains("cmd=wait")
    });
    proxy.set(Fault::Late(so_long));
    eventually(Duration::from_secs(10), "the give-back hangs", || proxy.late() > 0);
    proxy.set(Fault::None);
}

/// The next attempt succeeds. What is carried out late must not undo that.
fn a_late_give_back_undoes_nothing(is_in_line: bool) {
    let store = Store::of(Redis::with(&["--repl-diskless-sync-delay", "0"]));
    // It learns the scripts: what gives back by an unknown hash undoes nothing.
    store.redlock(&["run", "-k", "warm", "--", "true"]).run().expect(0);
    let other = is_in_line.then(|| store.hold("X", &[]));
    let master = store.redis.as_ref().expect("a Redis");
    let (proxy, replica, folder) = (Proxy::to(master.port), Redis::start(), Folder::new());
    let started = folder.path("started");
    let lock = ["run", "--key", "X", "--replicas", "1", "--wait", "--ttl", "10s", "--connect-timeout", "1s"];
    let job = ["--", "sh", "-c", ": > \"$0\"; cat", started.to_str().expect("a path")];
    let holder = Redlock::new(&[&lock[..], &job].concat()).server(&proxy.url()).open_stdin().spawn();
    if let Some(other) = other {
        store.await_waiters("X", 1);
        other.let_go().expect(0);
    }
    give_back_hangs(master, &proxy, Duration::from_secs(5));
    assert_eq!(replica.cli(&["replicaof", "127.0.0.1", &master.port.to_string()]), "OK");
    await_file(&started);
    eventually(Duration::from_secs(10), "the give-back came through", || proxy.late() == 0);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    let ended = holder.let_go().expect(0);
    assert!(!ended.stderr.contains("lost"), "{ended:?}");
}

#[test]
fn a_late_give_back_undoes_no_take() {
    a_late_give_back_undoes_nothing(false);
}

#[test]
fn a_late_give_back_undoes_no_grant_in_line() {
    a_late_give_back_undoes_nothing(true);
}

/// A server that does not know the script of the give-back says so late, to somebody who waits for no answer.
#[test]
fn a_late_give_back_is_carried_out() {
    let store = Store::redis();
    let master = store.redis.as_ref().expect("a Redis");
    let proxy = Proxy::to(master.port);
    let limit = in_ms(slowed(1000));
    let args = ["run", "-k", "X", "--replicas", "1", "--connect-timeout", &limit, "--", "echo", "ran"];
    let refused = Redlock::new(&args).server(&proxy.url()).spawn();
    give_back_hangs(master, &proxy, Duration::from_millis(800));
    let refused = refused.finish().expect(69);
    assert_eq!(refused.stdout, "");
    assert!(!refused.line().contains("may stay locked"), "{refused:?}");
    assert_eq!(master.cli(&["get", "X"]), "");
}
