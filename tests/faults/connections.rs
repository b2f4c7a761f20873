//! Servers that cannot be reached, are others than they should be, or do not let us in; and the ways to log in.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{
    Authority, Finished, Folder, Papers, Redis, Redlock, Store, Valid, eventually, free_port, least_acl,
};

/// In every URL below.
const CANARY: &str = "canary";

/// A call that has a password, and no success.
struct Call {
    redlock: Redlock,
    shown: String,
}

/// `redlock run` with a server at this URL, which is shown in messages, and a password in it.
fn run(url: &str) -> Call {
    with_user(url, "")
}

fn with_user(url: &str, user: &str) -> Call {
    let redlock = Redlock::new(&["run", "-v", "-k", "X", "--connect-timeout", "1s", "--", "echo", "started"]);
    Call { redlock: redlock.server(&logged_in(url, user)), shown: url.to_owned() }
}

fn logged_in(url: &str, user: &str) -> String {
    url.replacen("://", &format!("://{user}:{CANARY}@"), 1)
}

impl Call {
    fn with(mut self, name: &str, value: &Path) -> Call {
        self.redlock = self.redlock.env(name, value);
        self
    }

    fn trusting(self, authority: &Authority) -> Call {
        self.with("REDLOCK_TLS_CA", &authority.file())
    }

    fn showing(self, papers: &Papers) -> Call {
        self.with("REDLOCK_TLS_CERT", &papers.cert).with("REDLOCK_TLS_KEY", &papers.key)
    }

    /// One line with the server's name and these words, in time; nothing was started.
    #[track_caller]
    fn fails(self, code: i32, words: &str) -> Finished {
        let start = Instant::now();
        let ended = self.redlock.run().expect(code);
        assert!(start.elapsed() < Duration::from_secs(3), "took {:?}: {ended:?}", start.elapsed());
        let line = ended.line();
        assert!(
            line.starts_with("redlock: ") && line.contains(&self.shown) && line.contains(words),
            "{words:?}: {line}"
        );
        assert!(ended.stdout.is_empty() && !line.contains(CANARY), "{ended:?}");
        println!("{line}");
        ended
    }

    #[track_caller]
    fn works(self) {
        let ended = self.redlock.run().expect(0);
        assert!(ended.stdout == "started\n" && !ended.stderr.contains(CANARY), "{ended:?}");
    }
}

/// A server with this certificate; it asks nobody for one.
fn tls(papers: &Papers) -> Redis {
    Redis::with_tls(papers, papers, &["--tls-auth-clients", "no", "--requirepass", CANARY])
}

#[test]
fn nobody_there() {
    run(&format!("redis://127.0.0.1:{}", free_port())).fails(69, "connection refused");
    let url = format!("rediss://127.0.0.1:{}", free_port());
    run(&url).trusting(&Authority::new()).fails(69, "connection refused");
    let folder = Folder::new();
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

#[test]
fn no_answer_to_the_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("rediss://{}", listener.local_addr().expect("its number"));
    let authority = Authority::new();
    run(&url).trusting(&authority).fails(69, "no answer to the TLS handshake in time");

    let args = ["run", "-k", "X", "--connect-timeout", "60s", "--", "true"];
    let redlock = Redlock::new(&args).server(&url).env("REDLOCK_TLS_CA", authority.file()).spawn();
    let _first = listener.accept().expect("the first one");
    let (_second, _) = listener.accept().expect("the second one");
    let start = Instant::now();
    redlock.signal(Signal::SIGINT);
    assert_eq!(redlock.finish().code(), -2);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

/// In a network of its own, with a name server that says nothing, and with none.
#[test]
fn names_that_are_not_found() {
    // No DNS name has a label as long as that, so that nobody is asked.
    run(&format!("redis://{}.example:6379", "x".repeat(70))).fails(69, "its name cannot be resolved");
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
        let args = ["-rmnpf", "--kill-child", "bash", "-c", &script, &path, program];
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
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    run(&format!("redis://{address}")).fails(69, "it does not speak the Redis protocol");
    run(&format!("rediss://{address}")).trusting(&authority).fails(69, "it does not speak TLS");

    let plain = Redis::with(&["--requirepass", CANARY]);
    let url = plain.url().replace("redis:", "rediss:");
    run(&url).trusting(&authority).fails(69, "should the URL begin with redis://?");

    let encrypted = tls(&authority.sign(&["127.0.0.1"], Valid::Now));
    let url = encrypted.url().replace("rediss:", "redis:");
    run(&url).fails(69, "rediss://");
    // Also without a login.
    let redlock = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&url);
    Call { redlock, shown: url }.fails(69, "rediss://");
}

#[test]
fn certificates_of_others() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let with = |names: &[&str], valid| tls(&authority.sign(names, valid));

    let good = with(&["127.0.0.1", "localhost"], Valid::Now);
    run(&good.url()).trusting(&authority).works();
    run(&good.url().replace("127.0.0.1", "localhost")).trusting(&authority).works();
    // As a root of the system.
    run(&good.url()).with("SSL_CERT_FILE", &authority.file()).works();
    run(&good.url()).with("SSL_CERT_FILE", &stranger.file()).fails(69, "--tls-ca FILE names whom to believe");
    let why = format!("its certificate is signed by nobody in --tls-ca {}", stranger.file().display());
    run(&good.url()).trusting(&stranger).with("SSL_CERT_FILE", &authority.file()).fails(69, &why);
    // One that was made anew has the name of the old one.
    let [old, new] = [Authority::named("mine"), Authority::named("mine")];
    let made_anew = tls(&new.sign(&["127.0.0.1"], Valid::Now));
    run(&made_anew.url()).trusting(&old).fails(69, "its certificate is signed by nobody in --tls-ca");

    run(&with(&["127.0.0.1"], Valid::UntilYear(2020)).url())
        .trusting(&authority)
        .fails(69, "its certificate has expired");
    run(&with(&["127.0.0.1"], Valid::FromYear(3000)).url())
        .trusting(&authority)
        .fails(69, "its certificate is not valid yet");
    let named = with(&["a.example", "10.0.0.1", "*.b.example"], Valid::Now);
    let why = "its certificate is for other names (a.example, 10.0.0.1, *.b.example)";
    run(&named.url()).trusting(&authority).fails(69, why);
    run(&named.url().replace("127.0.0.1", "localhost")).trusting(&authority).fails(69, why);
    run(&with(&[], Valid::Now).url()).trusting(&authority).fails(69, "for no name at all");
    // What a certificate says is no text for a terminal.
    let hostile = with(&["\u{1b}]0;x\u{7}a.example"], Valid::Now);
    let line = run(&hostile.url()).trusting(&authority).fails(69, "a.example").stderr;
    assert!(!line.trim_end().contains(char::is_control), "{line:?}");
}

#[test]
fn certificates_of_ours() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    let redis = Redis::with_tls(&papers, &papers, &["--requirepass", CANARY]);
    let url = redis.url();
    let call = || run(&url).trusting(&authority);
    call().showing(&authority.sign(&["me"], Valid::Now)).works();
    call().fails(77, "it wants a certificate: --tls-cert FILE and --tls-key FILE");
    call().showing(&stranger.sign(&["me"], Valid::Now)).fails(77, "it does not know who signed it");
    call().showing(&authority.sign(&["me"], Valid::UntilYear(2020))).fails(77, "it has expired");

    // Without a login nothing is asked before the lock itself; the answer is the same.
    let open = Redis::with_tls(&papers, &papers, &[]);
    let redlock = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&open.url());
    Call { redlock, shown: open.url() }.trusting(&authority).fails(77, "it wants a certificate");
}

/// They are read before anything is contacted.
#[test]
fn files_that_are_no_good() {
    let authority = Authority::new();
    let [mine, other] = ["mine", "other"].map(|name| authority.sign(&[name], Valid::Now));
    let url = format!("rediss://127.0.0.1:{}", free_port());
    let folder = Folder::new();
    let (missing, text, broken) = (folder.path("missing"), folder.path("text"), folder.path("broken"));
    fs::write(&text, "no certificate\n").expect("a file");
    fs::write(&broken, "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n").expect("a file");
    let call = || run(&url).trusting(&authority);
    for (bad, why) in [(&missing, "No such file"), (&text, "no certificate in it"), (&broken, "no PEM file")]
    {
        let in_file = |option: &str| format!("{option} {}: ", bad.display());
        for line in [
            run(&url).with("REDLOCK_TLS_CA", bad).fails(78, why),
            call().showing(&mine).with("REDLOCK_TLS_CERT", bad).fails(78, why),
        ] {
            assert!(
                line.stderr.contains(&in_file("--tls-ca")) || line.stderr.contains(&in_file("--tls-cert")),
                "{line:?}"
            );
        }
    }
    call().showing(&mine).with("REDLOCK_TLS_KEY", &missing).fails(78, "No such file");
    call().showing(&mine).with("REDLOCK_TLS_KEY", &text).fails(78, "there is no key in it");
    call().showing(&mine).with("REDLOCK_TLS_KEY", &other.key).fails(78, "it is not the key of --tls-cert");
    let alone = |name: &str, path: &Path, why: &str| {
        let line = call().with(name, path).fails(78, why);
        assert!(line.stderr.contains(&path.display().to_string()), "{line:?}");
    };
    alone("REDLOCK_TLS_CERT", &mine.cert, "it needs its --tls-key");
    alone("REDLOCK_TLS_KEY", &mine.key, "it needs its --tls-cert");
    // Who does not encrypt needs none of them.
    let redis = Redis::with(&["--requirepass", CANARY]);
    run(&redis.url()).with("REDLOCK_TLS_CA", &missing).works();
}

/// More than one record, and more than the socket tells of: what was decrypted is read to its end.
#[test]
fn long_answers_are_read_to_their_end() {
    const MANY: usize = 2000;
    let store = Store::tls();
    let redis = store.redis.as_ref().expect("a Redis");
    let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
    let members = (0..MANY).flat_map(|n| [n.to_string(), format!("token-{n} exclusive {}", "x".repeat(200))]);
    let members: Vec<String> = members.collect();
    let words: Vec<&str> =
        ["ZADD", "redlock:{X}:queue:X"].into_iter().chain(members.iter().map(String::as_str)).collect();
    assert_eq!(redis.cli(&words), MANY.to_string());
    assert_eq!(store.waiters("X"), MANY);
    // A connection that broke is opened anew, encrypted.
    let job = store.hold("Y", &[]);
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    job.let_go().expect(0);
    store.redlock(&["release", "-k", "X", "--token", token.trim()]).run().expect(0);
}

#[test]
fn logins() {
    let store = Store::with_user("locks on >PASSWORD ~* &* +@all");
    let url = store.redis.as_ref().map(Redis::url).unwrap_or_default();
    let redis = store.redis.as_ref().expect("a Redis");
    redis.cli(&["ACL", "SETUSER", "default", "resetpass", ">another"]);
    let file = store.folder.path("password");
    fs::write(&file, format!("{CANARY}\n")).expect("a password file");
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
    let redlock = store.redlock(&["run", "-k", "deploy:x", "--wait", "10s", "--", "true"]);
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
    assert_eq!(redis.cli(&["-n", "3", "EXISTS", "redlock:{X}:state:X"]), "1");
    let beyond = format!("{}/99", store.url);
    let redlock = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&beyond);
    Call { redlock, shown: beyond }.fails(69, "out of range");
    eventually(Duration::from_secs(1), "nothing is held", || redis.cli(&["EXISTS", "X"]) == "0");
}
