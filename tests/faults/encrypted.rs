//! TLS: who the server is, who we are, and what is said when that is not as it should be.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::failing_call::{CANARY, Call, logged_in, run, tls};
use crate::harness::{
    Authority, Folder, Redis, Redlock, Sentinel, Store, Valid, eventually, free_port, in_cluster, in_ms,
    other_users, slowed, ttl, within,
};

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
    within(Duration::from_secs(3), start);
}

/// The keeper of a script leaves the folder in which the files were named.
#[test]
fn a_keeper_finds_the_files() {
    let authority = Authority::new();
    let redis = tls(&authority.sign(&["127.0.0.1"], Valid::Now));
    let (ttl, longer) = (ttl(1500), slowed(3000).as_secs_f64());
    let script = format!(
        r#"eval "$("$0" acquire -k X --ttl {ttl} --while-pid $$ --format env)"; sleep {longer}; "$0" check"#
    );
    let program = env!("CARGO_BIN_EXE_redlock");
    let file = authority.file();
    let roots = Folder::new();
    std::os::unix::fs::symlink(&file, roots.path("5f15c80c.0")).expect("a name as c_rehash gives it");
    let (roots, above) = (roots.path(""), roots.path("").parent().expect("above").to_owned());
    let (own, above) = (file.parent().expect("its folder").to_owned(), above);
    for (variable, folder, value) in [
        ("REDLOCK_TLS_CA", &own, file.file_name()),
        ("SSL_CERT_FILE", &own, file.file_name()),
        ("SSL_CERT_DIR", &above, roots.file_name()),
    ] {
        let mut script =
            Redlock::under("bash", &["-c", &script, program]).server(&logged_in(&redis.url(), ""));
        script.command.current_dir(folder);
        let ended = script.env(variable, value.expect("its name")).run();
        assert_eq!((ended.code(), &*ended.stderr), (0, ""), "{variable}");
    }
}

/// What a cluster announces is never spoken to in plain.
#[test]
fn a_cluster() {
    let authority = Authority::new();
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    let bus = free_port().to_string();
    let options = ["--tls-auth-clients", "no", "--tls-cluster", "yes"];
    let redis = Redis::with_tls(&papers, &papers, &[&options[..], &in_cluster(&bus)].concat());
    redis.cli(&["cluster", "addslotsrange", "0", "16383"]);
    eventually(Duration::from_secs(20), "the cluster", || {
        redis.cli(&["cluster", "info"]).contains("cluster_state:ok")
    });
    let url = redis.url().replace("rediss:", "rediss+cluster:");
    let limit = in_ms(slowed(1000));
    let call =
        |url: &str| Redlock::new(&["run", "-k", "X", "--connect-timeout", &limit, "--", "true"]).server(url);
    call(&url).env("REDLOCK_TLS_CA", authority.file()).run().expect(0);
    let stranger = call(&url).run().expect(69);
    assert!(stranger.line().contains("certificate"), "{stranger:?}");
    call(&url.replace("rediss", "redis")).run().expect(69);
}

/// Neither the Sentinels nor whom they name are spoken to in plain.
#[test]
fn sentinels() {
    let authority = Authority::new();
    let mut sentinel = Sentinel::with_tls(&authority.sign(&["127.0.0.1"], Valid::Now));
    let url = sentinel.url();
    let call = |options: &[&str], url: &str| {
        let args = [&["run", "-k", "X", "--connect-timeout", "10s"][..], options, &["--", "true"]].concat();
        Redlock::new(&args).server(url)
    };
    let trusting = |options: &[&str]| call(options, &url).env("REDLOCK_TLS_CA", authority.file()).run();
    trusting(&["--replicas", "1"]).expect(0);
    let stranger = call(&[], &url).run().expect(69);
    assert!(stranger.line().contains("certificate"), "{stranger:?}");
    call(&[], &url.replace("rediss", "redis")).run().expect(69);
    // Over TLS it follows to another master, too.
    let master = sentinel.master();
    let from = master.port;
    master.kill();
    sentinel.await_failover(from);
    trusting(&[]).expect(0);
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
    run(&good.url()).with("SSL_CERT_FILE", &stranger.file()).fails(69, "--tls-ca FILE names those to trust");
    let why =
        format!("its certificate is not signed by an authority in --tls-ca {}", stranger.file().display());
    run(&good.url()).trusting(&stranger).with("SSL_CERT_FILE", &authority.file()).fails(69, &why);
    // One that was made anew has the name of the old one.
    let [old, new] = [Authority::named("mine"), Authority::named("mine")];
    let made_anew = tls(&new.sign(&["127.0.0.1"], Valid::Now));
    run(&made_anew.url())
        .trusting(&old)
        .fails(69, "its certificate is not signed by an authority in --tls-ca");

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
    run(&with(&[], Valid::Now).url()).trusting(&authority).fails(69, "names no host");
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
    fs::set_permissions(&text, fs::Permissions::from_mode(0o600)).expect("its mode");
    fs::write(&broken, "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n").expect("a file");
    let call = || run(&url).trusting(&authority);
    for (bad, why) in
        [(&missing, "No such file"), (&text, "it has no certificate"), (&broken, "not a PEM file")]
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
    call().showing(&mine).with("REDLOCK_TLS_KEY", &text).fails(78, "it has no key");
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

/// As a password file: who can read it can be us.
#[test]
fn a_key_that_others_can_read() {
    let authority = Authority::new();
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    let redis = Redis::with_tls(&papers, &papers, &["--requirepass", CANARY]);
    for (mode, is_refused) in [(0o644, true), (0o640, true), (0o604, true), (0o600, false), (0o400, false)] {
        fs::set_permissions(&papers.key, fs::Permissions::from_mode(mode)).expect("its mode");
        let call = run(&redis.url()).trusting(&authority).showing(&papers);
        match is_refused {
            true => {
                let line = call.fails(78, "others can read or change it; chmod 600 it").stderr;
                assert!(line.contains(&format!("--tls-key {}", papers.key.display())), "{line}");
            }
            false => call.works(),
        }
    }
}

/// A process of which no core may be dumped belongs to root in /proc: see PR_SET_DUMPABLE(2const).
#[test]
fn a_key_is_in_no_core_dump() {
    if !other_users() {
        return;
    }
    const NOBODY: u32 = 65534;
    let authority = Authority::new();
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    std::os::unix::fs::chown(&papers.key, Some(NOBODY), None).expect("root");
    for (key, is_secret) in [(Some(&papers), true), (None, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("rediss://{}", listener.local_addr().expect("its number"));
        let call = Redlock::new(&["run", "-k", "X", "--connect-timeout", "60s", "--", "true"]).server(&url);
        let mut call = Call { redlock: call, shown: url }.trusting(&authority);
        if let Some(papers) = key {
            call = call.showing(papers);
        }
        call.redlock.command.uid(NOBODY).gid(NOBODY);
        let running = call.redlock.spawn();
        let _connection = listener.accept().expect("it connects");
        let owner = fs::metadata(format!("/proc/{}/status", running.pid())).expect("its status").uid();
        assert_eq!(owner, if is_secret { 0 } else { NOBODY });
    }
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
