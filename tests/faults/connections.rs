//! Servers that cannot be reached, are others than they should be, or do not let us in; and the ways to log in.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::failing_call::{CANARY, Call, logged_in, run, tls, with_user};
use crate::harness::{
    Authority, Fault, Folder, Proxy, Redis, Redlock, Store, Valid, eventually, free_port, least_acl,
    namespaces, ttl,
};

#[test]
fn nobody_there() {
    run(&format!("redis://127.0.0.1:{}", free_port())).fails(69, "connection refused");
    let url = format!("rediss://127.0.0.1:{}", free_port());
    run(&url).trusting(&Authority::new()).fails(69, "connection refused");
    let folder = Folder::plain();
    let socket = folder.path("socket").display().to_string();
    let none = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&format!("redis+unix://{socket}"));
    let none = none.run().expect(69);
    assert!(none.line().contains(&socket) && none.line().contains("no such file"), "{none:?}");
}

/// As behind a firewall that drops what it does not like.
#[test]
fn no_answer_to_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number");
    // SAFETY: listen(2) on a socket that listens only changes the length of its queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queue.push(stream);
        assert!(queue.len() < 100, "the queue is never full");
    }
    run(&format!("redis://{address}")).fails(69, "no answer in time");
    run(&format!("rediss://{address}")).trusting(&Authority::new()).fails(69, "no answer in time");
}

#[test]
fn no_answer_to_a_request() {
    let redis = Redis::with(&["--requirepass", CANARY]);
    redis.pause();
    run(&redis.url()).fails(69, "no answer in time");
}

/// In a network of its own, where the first address of a name takes packets and answers none.
#[test]
fn a_host_with_an_address_that_is_silent() {
    if !namespaces() {
        return;
    }
    let folder = Folder::new();
    std::fs::write(folder.path("hosts"), "2001:db8::9 two\n127.0.0.1 two\n").expect("a file");
    let script = r#"
        cd "$1" && mount --bind hosts /etc/hosts && ip link set lo up && ip link add silent type veth peer name end &&
            ip address add 2001:db8::2/64 dev silent nodad && ip link set end up && ip link set silent up &&
            ip neighbour add 2001:db8::9 lladdr 02:00:00:00:00:09 dev silent || exit 1
        redis-server --port 6379 --save '' >redis.log & redis=$!
        until redis-cli ping | grep -q PONG; do sleep 0.05; done
        "$0" run -S redis://two -k X --connect-timeout 10s -- echo ran; status=$?
        kill $redis; wait $redis; exit $status"#;
    let path = folder.path("").display().to_string();
    let program = env!("CARGO_BIN_EXE_redlock");
    let run = ["--net", "--mount", "sh", "-c", script, program, &path];
    assert_eq!(Redlock::under("unshare", &run).run().expect(0).stdout, "ran\n");
}

/// In a network of its own, with a name server that says nothing, and with none.
#[test]
fn names_that_are_not_found() {
    // No DNS name has a label as long as that, so that nobody is asked.
    run(&format!("redis://{}.example:6379", "x".repeat(70))).fails(69, "its name cannot be resolved");
    if !namespaces() {
        return;
    }
    let folder = Folder::new();
    let resolv_conf = folder.path("resolv.conf");
    fs::write(&resolv_conf, "nameserver 127.0.0.1\n").expect("a file");
    const SILENT: &str = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                          s.bind(('127.0.0.1', 53)); print(flush=True); s.recv(1); s.recv(1); s.recv(1)";
    let server = format!("coproc python3 -c \"{SILENT}\"; read -r <&\"${{COPROC[0]}}\"");
    for (server, words) in
        [("true", "its name cannot be resolved"), (&server, "its name could not be resolved in time")]
    {
        let script =
            format!("ip link set lo up && mount --bind \"$0\" /etc/resolv.conf && {{ {server}; }} && \"$@\"");
        let path = resolv_conf.display().to_string();
        let program = env!("CARGO_BIN_EXE_redlock");
        let args = ["-rmnpf", "--mount-proc", "--kill-child", "bash", "-c", &script, &path, program];
        let args = [&args[..], &["run", "-k", "X", "--connect-timeout", "1s", "--", "true"]].concat();
        let shown = "redis://locks.example:6379".to_owned();
        let redlock = Redlock::under("unshare", &args).server(&logged_in(&shown, ""));
        Call { redlock, shown }.fails(69, words);
    }
}

#[test]
fn another_protocol() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    run(&format!("redis://{address}")).fails(69, "it does not speak the Redis protocol");
    run(&format!("rediss://{address}")).trusting(&authority).fails(69, "it does not speak TLS");

    let plain = Redis::with(&["--requirepass", CANARY]);
    let url = plain.url().replace("redis:", "rediss:");
    run(&url).trusting(&authority).fails(69, "should the URL be one without TLS?");

    let encrypted = tls(&authority.sign(&["127.0.0.1"], Valid::Now));
    let url = encrypted.url().replace("rediss:", "redis:");
    run(&url).fails(69, "rediss://");
    // Also without a login.
    let redlock = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&url);
    Call { redlock, shown: url }.fails(69, "rediss://");
}

#[test]
fn logins() {
    let store = Store::with_user("locks on >PASSWORD ~* &* +@all");
    let url = store.redis.as_ref().map(Redis::url).unwrap_or_default();
    let redis = store.redis.as_ref().expect("a Redis");
    redis.cli(&["ACL", "SETUSER", "default", "resetpass", ">another"]);
    let file = store.folder.path("password");
    // As some editors and templates write it.
    fs::write(&file, format!("\u{feff}\r\n{CANARY}\r\n")).expect("a password file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    let call = |url: &str| {
        let redlock = Redlock::new(&["run", "-v", "-k", "X", "--", "echo", "started"]).server(url);
        Call { redlock, shown: url.to_owned() }
    };
    with_user(&url, "locks").works();
    call(&url).with("REDLOCK_USER", Path::new("locks")).with("REDLOCK_PASSWORD_FILE", &file).works();
    call(&url).with("REDLOCK_USER", Path::new("locks")).with("REDISCLI_AUTH", Path::new(CANARY)).works();
    let with_name = url.replace("://", "://locks@");
    call(&with_name).with("REDLOCK_PASSWORD_FILE", &file).works();
    call(&with_name).with("REDISCLI_AUTH", Path::new(CANARY)).works();
    // The file is stronger than the variable.
    let wrong = Path::new("wrong");
    call(&with_name).with("REDLOCK_PASSWORD_FILE", &file).with("REDISCLI_AUTH", wrong).works();

    call(&url).fails(77, "it wants a password");
    run(&url).fails(77, "check --user and the password");
    with_user(&url, "nobody").fails(77, "check --user and the password");
    call(&url).with("REDISCLI_AUTH", Path::new("wrong-canary")).fails(77, "WRONGPASS");
    let open = Redis::start();
    with_user(&open.url(), "locks").fails(77, "WRONGPASS");
    run(&open.url()).fails(77, "the server has no password; leave it out");
    // Such a server, or a proxy, repeats the command that it does not know.
    let without_login = Redis::with(&["--rename-command", "AUTH", ""]);
    run(&without_login.url()).fails(69, "unknown command 'AUTH'");
}

/// The password is rotated on the server and in its file while a job runs.
#[test]
fn a_rotated_password_is_read_again() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("a Redis");
    let rotate = |password: &str| {
        let file = store.folder.path("password");
        fs::write(&file, format!("{password}\n")).expect("a password file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        redis.cli(&["ACL", "SETUSER", "u", "reset", "on", &format!(">{password}"), "~*", "&*", "+@all"]);
        file
    };
    let file = rotate("first");
    let args = ["run", "-k", "X", "--ttl", &ttl(1500), "--user", "u", "--", "cat"];
    let args = [&args[..7], &["--password-file", file.to_str().expect("a path")], &args[7..]].concat();
    let mut running = store.redlock(&args).open_stdin().spawn();
    running.lives_until("it holds X", || store.status("X")["holders"][0].is_object());
    rotate("second");
    redis.cli(&["CLIENT", "KILL", "USER", "u"]);
    let renewals = || redis.commandstats()["evalsha"];
    let before = renewals();
    running.lives_until("it is renewed", || renewals() > before + 2);
    let ended = running.let_go().expect(0);
    assert!(!ended.stderr.contains("lost"), "{ended:?}");
}

/// Nobody waits for a server that cannot hold locks, as a Sentinel, or does not let this host in.
#[test]
fn what_no_wait_mends_ends_at_once() {
    let waits = |url: &str| Call {
        redlock: Redlock::new(&["run", "-k", "X", "--wait", "--", "echo", "started"]).server(url),
        shown: url.to_owned(),
    };
    let without_scripts = Redis::with(&["--rename-command", "EVALSHA", "", "--rename-command", "EVAL", ""]);
    waits(&without_scripts.url()).fails(78, "redis+sentinel://HOST:PORT/MASTER");

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("its number"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.write_all(b"-DENIED Redis is running in protected mode because it is.\r\n");
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    waits(&url).fails(77, "set a password for its default user");
}

/// Who needs no password and gives one is refused. Redis carries out what came behind it all the same, as the user that
/// everybody is: it does not count, and nothing is left of it.
#[test]
fn what_follows_a_refused_login() {
    for store in [Store::redis(), Store::sentinel(), Store::cluster(), Store::quorum3()] {
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
        let stranger = |args: &[&str]| {
            let redlock = store.redlock(args).env("REDLOCK_USER", "nobody");
            let refused = redlock.env("REDISCLI_AUTH", "wrong-canary").run().expect(77);
            let line = refused.line();
            assert!(line.contains("check --user and the password") && !line.contains("stay"), "{refused:?}");
            assert!(refused.stdout.is_empty() && !line.contains("canary"), "{refused:?}");
        };
        for options in [&[][..], &["--wait"], &["--shared"], &["--ttl", "1h", "-k", "{X}2"]] {
            stranger(&[&["run", "-k", "X"], options, &["--", "echo", "started"]].concat());
            assert!(store.status("X")["holders"][0].is_null(), "{} {options:?}", store.url);
        }
        let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
        stranger(&["status", "X"]);
        stranger(&["break", "-k", "X", "--yes"]);
        stranger(&["check", "-k", "X", "--token", token.trim()]);
        assert!(store.status("X")["holders"][0].is_object(), "{}", store.url);
        for name in ["renew", "release"] {
            stranger(&[name, "-k", "X", "--token", token.trim()]);
        }
        // It waits in line as nobody, and leaves nobody there.
        stranger(&["run", "-k", "X", "--wait", "--", "echo", "started"]);
        assert_eq!(store.waiters("X"), 0, "{}", store.url);
    }
}

/// The user of the manual page, outside of what it may do.
#[test]
fn permissions() {
    let store = Store::with_user(&least_acl());
    let url = store.redis.as_ref().map(Redis::url).unwrap_or_default();
    let line = with_user(&url, "locks").fails(77, "permission").stderr;
    assert!(!line.contains("may stay locked"), "{line}");
    store.redlock(&["run", "-k", "deploy:x", "--", "true"]).run().expect(0);
    store.redis.as_ref().expect("a Redis").cli(&["ACL", "SETUSER", "locks", "-subscribe"]);
    let _holder = store.hold("deploy:x", &[]);
    let redlock = store.redlock(&["run", "-k", "deploy:x", "--wait", "5m", "--", "true"]);
    Call { redlock, shown: url }.fails(77, "'subscribe' command");
}

#[test]
fn over_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        println!("there is no IPv6 here");
        return;
    }
    let redis = Redis::with(&["--bind", "127.0.0.1", "::1", "--requirepass", CANARY]);
    run(&format!("redis://[::1]:{}", redis.port)).works();
    let authority = Authority::new();
    let papers = authority.sign(&["::1"], Valid::Now);
    let args = ["--bind", "127.0.0.1", "::1", "--tls-auth-clients", "no", "--requirepass", CANARY];
    let encrypted = Redis::with_tls(&papers, &papers, &args);
    run(&format!("rediss://[::1]:{}", encrypted.port)).trusting(&authority).works();
    run(&encrypted.url()).trusting(&authority).fails(69, "its certificate is for other names");
    run(&format!("redis://[::1]:{}", free_port())).fails(69, "connection refused");
}

/// Locks in one database do not meet those in another.
#[test]
fn databases_are_apart() {
    let store = Store::redis();
    let mut third = Store::local();
    third.url = format!("{}/3", store.url);
    let (here, there) = (store.hold("X", &[]), third.hold("X", &[]));
    let waiter = third.wait_in_line("X", "third", &[]);
    third.await_waiters("X", 1);
    assert_eq!(store.waiters("X"), 0);
    assert_ne!(store.status("X")["holders"][0]["pid"], third.status("X")["holders"][0]["pid"]);
    there.let_go().expect(0);
    waiter.finish().expect(0);
    assert_eq!(third.order(), ["third"]);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    here.let_go().expect(0);
    let redis = store.redis.as_ref().expect("a Redis");
    assert_eq!(redis.cli(&["-n", "3", "EXISTS", "redlock:{X}:state"]), "1");
    let beyond = format!("{}/99", store.url);
    let redlock = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&beyond);
    Call { redlock, shown: beyond }.fails(78, "it has no database 99");
    eventually(Duration::from_secs(1), "nothing is held", || redis.cli(&["EXISTS", "X"]) == "0");
}

/// As by a proxy that does not let connections be silent. Whoever waits behind it does not ask without end.
#[test]
fn subscriptions_that_break_at_once() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("a Redis");
    let subscriptions = || redis.commandstats().get("subscribe").copied().unwrap_or_default();
    let holder = store.hold("X", &[]);
    let proxy = Proxy::to(redis.port);
    proxy.set(Fault::CutSubscriptionAt(usize::MAX));
    let wait = |limit: &str| {
        Redlock::new(&["run", "--key", "X", "--wait", limit, "--", "true"]).server(&proxy.url())
    };
    wait("3s").run().expect(75);
    let asked = subscriptions();
    assert!((3..15).contains(&asked), "{asked} subscriptions within three seconds");
    let waiter = wait("20s").spawn();
    eventually(Duration::from_secs(5), "it listens anew", || subscriptions() > asked + 1);
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}
