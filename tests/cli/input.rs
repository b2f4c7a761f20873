//! Bad input: one line, the valid form in it, and the store is never contacted.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::{Finished, Folder, Redlock, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// A server that is never to be contacted.
struct Untouched(TcpListener);

impl Untouched {
    fn new() -> Untouched {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("its mode");
        Untouched(listener)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.0.local_addr().expect("its address").port())
    }

    #[track_caller]
    fn refuses(&self, redlock: Redlock, codes: &[i32], form: &str) -> Finished {
        let refused = redlock.run();
        assert!(codes.contains(&refused.code()), "{refused:?}");
        assert!(
            refused.line().starts_with("redlock: ") && refused.line().contains(form),
            "{form:?}: {refused:?}"
        );
        assert!(refused.stdout.is_empty() && !refused.stderr.contains("canary"), "{refused:?}");
        assert!(self.0.accept().is_err(), "the store was contacted");
        refused
    }
}

/// As in `REDLOCK_TTL= redlock …`: as if it were not set.
#[test]
fn empty_variables() {
    let store = Store::local();
    let names = "COLOR CONFIG CONFLICT_EXIT_CODE CONNECT_TIMEOUT FOR KEY KILL_AFTER LABEL LEFTOVERS MIN_HOLD ON_LOST \
                 PASSWORD_FILE PERMITS QUEUE_LIMIT QUIET REPLICAS SENTINEL_PASSWORD_FILE SHARED SPLAY SUPERSEDE TIMEOUT \
                 TLS_CA TLS_CERT TLS_KEY TOKEN TOKEN_FILE TTL USER VERBOSE WAIT";
    let names: Vec<String> = names.split(' ').map(|name| format!("REDLOCK_{name}")).collect();
    let with_all = |redlock: Redlock| names.iter().fold(redlock, |redlock, name| redlock.env(name, ""));
    for args in
        [&["acquire", "-k", "X"][..], &["status", "X"], &["doctor", "-q"], &["run", "-k", "Y", "--", "true"]]
    {
        assert_eq!(with_all(store.redlock(args)).run().expect(0).stderr, "", "{args:?}");
    }
    let holder = store.status("X")["holders"][0].clone();
    assert!(holder["label"].as_str().is_some_and(|label| !label.is_empty()), "{holder}");
    let missing = with_all(store.redlock(&["check", "-k", "X"])).run().expect(64);
    assert!(missing.line().contains("the owner token is missing"), "{missing:?}");
    // Of a flag it is a mistake.
    store.redlock(&["run", "-k", "Y", "--ttl", "", "--", "true"]).run().expect(64);
    store.redlock(&["status", "--tls-ca", ""]).run().expect(64);
}

#[test]
fn options() {
    let server = Untouched::new();
    let long = "k".repeat(513);
    let cases: &[(&[&str], &str)] = &[
        (&["-k", "", "--", "true"], "1 to 512 bytes"),
        (&["-k", "a\nb", "--", "true"], "without control characters"),
        (&["-k", &long, "--", "true"], "1 to 512 bytes"),
        (&["-k", "redlock:{x}", "--", "true"], "choose another"),
        (&["-k", "X", "--ttl", "0", "--", "true"], "500ms, 30s"),
        (&["-k", "X", "--ttl=-1", "--", "true"], "500ms, 30s"),
        (&["-k", "X", "--permits", "0", "--", "true"], "1 or more"),
        (&["-k", "X", "--permits", "-1", "--", "true"], "1 or more"),
        (&["-k", "X", "--permits", "2", "--shared", "--", "true"], "cannot be used with"),
        (&["-k", "X", "-k", "Y", "-k", "X", "--", "true"], "the key 'X' is given twice"),
        (&["-k", "X", "--ttl", "3 parsecs", "--", "true"], "500ms, 30s"),
        (&["-k", "X", "--ttl", "99999999999999999999", "--", "true"], "500ms, 30s"),
        (&["-k", "X", "--ttl", "4s", "--kill-after", "5s", "--", "true"], "for example 1s"),
        (&["-k", "X", "--wait", "soon", "--", "true"], "500ms, 30s"),
        (&["-k", "X", "-E", "256", "--", "true"], "256"),
        (&["-k", "X", "--"], "the command is missing"),
        (&["-k", "X"], "the command is missing"),
        (&["--", "true"], "the key is missing"),
        (&["-k", "X", "--tll", "3s", "--", "true"], "--ttl"),
        (&["-k", "X", "--on-lost", "panic", "--", "true"], "terminate, continue"),
        (&["-k", "X", "--leftovers", "forget", "--", "true"], "release, wait, kill"),
    ];
    for (args, form) in cases {
        let args: Vec<&str> = ["run"].iter().chain(args.iter()).copied().collect();
        server.refuses(Redlock::new(&args).server(&server.url()), &[64], form);
    }
    let gone = {
        let mut process = Command::new("true").spawn().expect("a process");
        process.wait().expect("its end");
        process.id().to_string()
    };
    let cases: &[(&[&str], &str)] = &[
        (&["--while-pid", "0"], "--while-pid <PID>': a pid is 1 or more"),
        (&["--while-pid=-1"], "a pid is 1 or more"),
        (&["--while-pid", "me"], "invalid value 'me' for '--while-pid"),
        (&["--while-pid", &gone], "in a script $$"),
        (&["--while-pid", "2147483647"], "process 2147483647 does not exist"),
        (&["--on-lost", "terminate"], "--while-pid"),
        (&["--format", "github"], "GITHUB_OUTPUT"),
        (&["--format", "xml"], "token, env, fish, json, github"),
    ];
    for (args, form) in cases {
        let args: Vec<&str> = ["acquire", "-k", "X"].iter().chain(args.iter()).copied().collect();
        server.refuses(Redlock::new(&args).server(&server.url()), &[64], form);
    }
    let itself = Redlock::under("sh", &["-c", r#"exec "$0" acquire -k X --while-pid $$"#, PROGRAM]);
    server.refuses(itself.server(&server.url()), &[64], "redlock itself");
    server.refuses(Redlock::new(&["frobnicate"]).server(&server.url()), &[64], "frobnicate");
    // A cron job may have no variable at all.
    for alone in [Redlock::new(&[]), Redlock::new(&[]).server(&server.url())] {
        let alone = alone.run().expect(64);
        let is_help = alone.stderr.starts_with("Hold a distributed lock") && alone.stderr.contains("Usage:");
        assert!(is_help && alone.stdout.is_empty(), "{alone:?}");
    }
    server.refuses(Redlock::new(&["release", "-k", "X"]).server(&server.url()), &[64], "--token-file");
    let ttl =
        Redlock::new(&["run", "-k", "X", "--", "true"]).server(&server.url()).env("REDLOCK_TTL", "nonsense");
    server.refuses(ttl, &[64], "500ms, 30s");
    let mut bytes = Redlock::new(&["run", "-k"]).server(&server.url());
    bytes
        .command
        .arg(std::os::unix::ffi::OsStrExt::from_bytes(b"\xff") as &std::ffi::OsStr)
        .args(["--", "true"]);
    server.refuses(bytes, &[64], "UTF-8");
}

#[test]
fn servers() {
    let server = Untouched::new();
    for (url, form) in [
        ("redos://127.0.0.1", "redis://host[:port][/db]"),
        ("redis://127.0.0.1:99999", "redis://[user[:password]@]host[:port][/db]"),
        ("redis://127.0.0.1/x", "redis://[user[:password]@]host[:port][/db]"),
        ("localhost", "redis://host[:port][/db]"),
        ("redis://:canary@[::1", "redis://[user[:password]@]host[:port][/db]"),
    ] {
        server.refuses(Redlock::new(&["run", "-k", "X", "-S", url, "--", "true"]), &[78], form);
    }
    let shown = server.url().replace("redis://", "redis://:canary@");
    server.refuses(Redlock::new(&["run", "-k", "X", "-S", &shown, "--", "true"]), &[64], "--password-file");
}

#[test]
fn files() {
    let (server, folder) = (Untouched::new(), Folder::new());
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        path.display().to_string()
    };
    let with_password = format!("server = \"{}\"\n", server.url().replace("redis://", "redis://:canary@"));
    for (file, form) in [
        (write("broken", "ttl = = canary\n", 0o600), "line 1"),
        (write("unknown", "\ntll = \"3s\"\n", 0o600), "unknown setting 'tll'; did you mean ttl?"),
        (write("value", "ttl = \"soon\"\n", 0o600), "500ms, 30s"),
        (write("word", "leftovers = \"forget\"\n", 0o600), "release, wait, kill"),
        (write("open", &with_password, 0o644), "chmod 600"),
        (folder.path("missing").display().to_string(), "does not exist"),
    ] {
        let run = Redlock::new(&["run", "-k", "X", "--config", &file, "--", "true"]).server(&server.url());
        server.refuses(run, &[78], form);
    }
    let open = write("password", "canary\n", 0o644);
    let run = Redlock::new(&["run", "-k", "X", "--password-file", &open, "--", "true"]).server(&server.url());
    server.refuses(run, &[78], "chmod 600");
    symlink(folder.path("target"), folder.path("link")).expect("a link");
    let link = folder.path("link").display().to_string();
    let run = Redlock::new(&["acquire", "-k", "X", "--token-file", &link]).server(&server.url());
    server.refuses(run, &[78], "symbolic link");
    assert!(!folder.path("target").exists());
}

/// No message has an owner token in it.
#[test]
fn tokens() {
    let server = Untouched::new();
    let redlock = |args: &[&str]| Redlock::new(args).server(&server.url());
    for subcommand in ["check", "renew", "release"] {
        let check = redlock(&[subcommand, "-k", "X"]).env("REDLOCK_TOKEN", "canary\u{7}");
        server.refuses(check, &[64], "what `redlock acquire` printed");
        let check = redlock(&[subcommand, "-k", "X", "--token", "canary\n"]);
        server.refuses(check, &[64], "what `redlock acquire` printed");
    }
    server.refuses(
        redlock(&["break", "-k", "X", "--token=canary\n"]),
        &[64],
        "what `redlock acquire` printed",
    );
    let token = "68413f2f-8e0b-49a8-8a46-e268c50c52f7";
    let refused =
        server.refuses(redlock(&["release", "-k", "X", token]), &[64], "an owner token is not a key");
    assert!(!refused.stderr.contains("e268c50c52f7"), "{refused:?}");
}

/// Whether others can read a secret is asked of the file that was opened; another one may be at its path by then.
#[test]
fn secrets_are_looked_at_when_they_are_open() {
    let (store, folder) = (Store::redis(), Folder::new());
    let url = &store.url;
    for (name, text, variable) in [
        ("password", "canary\n".to_owned(), "REDLOCK_PASSWORD_FILE"),
        ("config", format!("server = \"{}\"\n", url.replace("://", "://:canary@")), "REDLOCK_CONFIG"),
    ] {
        let (file, trace) = (folder.path(name), folder.path("trace"));
        let write = |mode: u32| {
            fs::write(&file, &text).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
        };
        let run = |program: &str, args: &[&str]| {
            Redlock::under(program, args)
                .env(variable, &file)
                .env("REDLOCK_KEY", "X")
                .env("REDLOCK_TOKEN", "T")
        };
        let options = ["-qq", "-e", "trace=%file", "-o", trace.to_str().expect("a path"), PROGRAM, "check"];
        write(0o600);
        run("strace", &options).run();
        let calls = fs::read_to_string(&trace).expect("a trace");
        let own = calls.lines().filter(|call| call.contains(&format!("{}\"", file.display())));
        let own: Vec<&str> = own.collect();
        assert!(own.len() == 1 && own[0].starts_with("open"), "{own:?}");
        for mode in [0o640, 0o604, 0o620] {
            write(mode);
            let refused = run(PROGRAM, &["check"]).run().expect(78);
            assert!(
                refused.line().contains("chmod 600") && !refused.stderr.contains("canary"),
                "{refused:?}"
            );
        }
        write(0o600);
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65534), None).expect("another owner");
            let refused = run(PROGRAM, &["check"]).run().expect(78);
            assert!(refused.line().contains("belongs to user 65534"), "{refused:?}");
        }
    }
}

/// Flag over environment over file.
#[test]
fn sources() {
    let store = Store::local();
    let file = store.folder.path("config.toml");
    fs::write(&file, "ttl = \"100s\"\nlabel = \"from the file\"\nwait = \"1s\"\n").expect("a file");
    let file = file.display().to_string();
    let left = |key: &str| store.status(key)["holders"][0]["left_ms"].as_u64().unwrap_or(0) / 1000;
    store.redlock(&["acquire", "-k", "file", "--config", &file]).run().expect(0);
    store.redlock(&["acquire", "-k", "env", "--config", &file]).env("REDLOCK_TTL", "200s").run().expect(0);
    store
        .redlock(&["acquire", "-k", "flag", "--config", &file, "--ttl", "300s"])
        .env("REDLOCK_TTL", "200s")
        .run()
        .expect(0);
    assert!(
        (90..=100).contains(&left("file"))
            && (190..=200).contains(&left("env"))
            && (290..=300).contains(&left("flag"))
    );
    assert_eq!(store.status("file")["holders"][0]["label"], "from the file");
    let waited = store.redlock(&["acquire", "-k", "file", "--config", &file]).run().expect(75);
    assert!(waited.stderr.contains("gave up after"), "{waited:?}");
    let at_once = store.redlock(&["acquire", "-k", "file", "--config", &file, "--no-wait"]).run().expect(75);
    assert!(!at_once.stderr.contains("gave up after"), "{at_once:?}");
}

/// A flag is stronger than any variable, also than one of the option that contradicts it.
#[test]
fn flags_beat_variables() {
    let store = Store::local();
    let file = store.folder.path("config.toml");
    fs::write(&file, "shared = true\nquiet = true\n").expect("a file");
    let (file, token) = (file.display().to_string(), store.folder.path("token"));
    let acquire = |key: &str, flags: &[&str]| store.redlock(&[&["acquire", "-k", key], flags].concat());
    let kind = |key: &str| store.status(key)["kind"].clone();
    acquire("held", &[]).run().expect(0);
    for (variable, flags) in [
        ("WAIT", &["-n"][..]),
        ("QUIET", &["-v"]),
        ("PERMITS", &["--shared"]),
        ("SHARED", &["--permits", "1"]),
    ] {
        let value = if variable == "WAIT" { "30s" } else { "1" };
        let busy = acquire("held", flags).env(&format!("REDLOCK_{variable}"), value).run();
        assert!([75, 78].contains(&busy.code()) && busy.line().contains("'held' is"), "{variable}: {busy:?}");
    }
    let verbose = acquire("q", &["-v"]).env("REDLOCK_QUIET", "1").run().expect(0);
    assert!(verbose.stderr.contains("fencing token"), "{verbose:?}");
    assert_eq!(acquire("v", &["-q"]).env("REDLOCK_VERBOSE", "1").run().expect(0).stderr, "");
    acquire("s", &["--shared"]).env("REDLOCK_PERMITS", "2").run().expect(0);
    acquire("p", &["--permits", "2"]).env("REDLOCK_SHARED", "1").run().expect(0);
    assert_eq!((kind("s"), kind("p")), ("shared".into(), "semaphore".into()));
    let printed = acquire("f", &["--format", "json"]).env("REDLOCK_TOKEN_FILE", &token).run().expect(0);
    assert!(printed.stdout.contains("\"fence\"") && !token.exists(), "{printed:?}");
    // A variable is stronger than a file, also one that says no.
    acquire("x", &["--config", &file]).env("REDLOCK_SHARED", "0").run().expect(0);
    assert_eq!(kind("x"), "exclusive");
    let busy = acquire("x", &["--config", &file]).env("REDLOCK_QUIET", "0").run().expect(75);
    assert!(busy.line().contains("'x' is held"), "{busy:?}");
    // One that says no contradicts nothing, and is stronger than a file all the same.
    let off = |key: &str, flags: &[&str]| {
        let off = acquire(key, flags).env("REDLOCK_SHARED", "no").env("REDLOCK_QUIET", "off");
        off.env("REDLOCK_VERBOSE", "0")
    };
    let both = off("o", &["--config", &file]).env("REDLOCK_PERMITS", "3").run().expect(0);
    assert_eq!((kind("o"), &*both.stderr), ("semaphore".into(), ""));
    let busy = off("x", &["--config", &file]).run().expect(75);
    assert!(busy.line().contains("'x' is held"), "{busy:?}");
    // As in a file.
    acquire("x", &[]).env("REDLOCK_WAIT", "false").run().expect(75);
    let waiting = acquire("x", &[]).env("REDLOCK_WAIT", "true").spawn();
    store.await_waiters("x", 1);
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.finish().code(), -15);
    // Two that are equally strong contradict each other.
    let both = acquire("y", &[]).env("REDLOCK_SHARED", "1").env("REDLOCK_PERMITS", "2").run().expect(64);
    assert!(both.line().contains("cannot be used with"), "{both:?}");
}

/// Words that stores write in the place of an owner token.
#[test]
fn words_that_are_no_tokens() {
    let server = Untouched::new();
    for token in ["shared:", "permits:2", "broken:x", "released:x"] {
        for command in [&["release"][..], &["renew"], &["check"], &["break", "--yes"]] {
            let args = [command, &["-k", "X", "--token", token]].concat();
            server.refuses(Redlock::new(&args).server(&server.url()), &[64], "redlock acquire");
        }
    }
}

#[test]
fn token_files() {
    let store = Store::local();
    let path = store.folder.path("token");
    let file = path.display().to_string();
    let out = store.redlock(&["acquire", "-k", "X", "--token-file", &file]).run().expect(0);
    assert_eq!(out.stdout, "");
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
    for command in [&["check"][..], &["renew", "--ttl", "1m"], &["release"]] {
        let args: Vec<&str> = command.iter().chain(&["-k", "X", "--token-file", &file]).copied().collect();
        store.redlock(&args).run().expect(0);
    }
    store.redlock(&["check", "-k", "X", "--token-file", &file]).run().expect(1);
}

/// Who has opened the file that was there does not read the token.
#[test]
fn a_token_file_takes_the_place_of_another() {
    let store = Store::local();
    let folder = store.folder.path("tokens");
    fs::create_dir(&folder).expect("a folder");
    let (path, missing) = (folder.join("token"), folder.join("no/such/token"));
    fs::write(&path, "before\n").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its mode");
    let mut open = fs::File::open(&path).expect("the file");
    fs::hard_link(&path, folder.join("another name")).expect("a link");
    let acquire = |file: &std::path::Path| {
        store.redlock(&["acquire", "-k", "X", "--token-file", file.to_str().expect("a path")]).run()
    };
    acquire(&path).expect(0);
    let (old, new) = (open.metadata().expect("of the old"), fs::metadata(&path).expect("of the new"));
    assert!(old.ino() != new.ino() && new.permissions().mode() & 0o777 == 0o600, "{old:?} {new:?}");
    let mut read = String::new();
    open.read_to_string(&mut read).expect("the old file");
    assert_eq!(read, "before\n");
    for mode in [0o640, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        let release = store.redlock(&["release", "-k", "X", "--token-file", path.to_str().expect("a path")]);
        assert!(release.run().expect(78).line().contains("chmod 600"));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    store.redlock(&["release", "-k", "X", "--token-file", path.to_str().expect("a path")]).run().expect(0);
    assert!(acquire(&missing).expect(78).line().contains("released 'X'"));
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 2);
}

#[test]
fn help_and_version() {
    for args in [&["--help"][..], &["run", "--help"], &["-h"], &["--version"], &["completions", "bash"]] {
        let help = Redlock::new(args).run().expect(0);
        assert!(!help.stdout.is_empty() && help.stderr.is_empty(), "{args:?}");
    }
}

/// What other lock commands call it.
#[test]
fn other_names_of_a_subcommand_are_answered_with_ours() {
    let server = Untouched::new();
    for (other, ours) in
        [("lock", "run"), ("unlock", "release"), ("exec", "run"), ("list", "status"), ("ls", "status")]
    {
        let redlock = Redlock::new(&[other, "-k", "X"]).server(&server.url());
        server.refuses(redlock, &[64], &format!("redlock calls it {ours}"));
    }
}

#[test]
fn units_that_are_taken_for_minutes() {
    let server = Untouched::new();
    for wait in ["5M", "1y", "2months"] {
        let redlock = Redlock::new(&["run", "-k", "X", "--wait", wait, "--", "true"]).server(&server.url());
        server.refuses(redlock, &[64], "m is minutes");
    }
}

/// As flock(1) names them; a switch that stands twice is none too many.
#[test]
fn options_of_flock() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    for option in ["--nonblock", "--nb", "-nn"] {
        let busy = store.redlock(&["run", "-k", "X", option, "--", "true"]).env("REDLOCK_WAIT", "1h").run();
        assert_eq!(busy.code(), 75, "{option}: {busy:?}");
    }
    holder.let_go().expect(0);
    store.redlock(&["run", "-vv", "-k", "X", "--", "true"]).run().expect(0);
    store.redlock(&["run", "-qq", "-k", "X", "--", "true"]).run().expect(0);
    for (key, option, variable) in [("A", "-x", "REDLOCK_SHARED"), ("B", "--exclusive", "REDLOCK_PERMITS")] {
        store.redlock(&["acquire", "-k", key, option]).env(variable, "1").run().expect(0);
        assert_eq!(store.status(key)["kind"], "exclusive");
    }
    store.redlock(&["run", "-k", "X", "-x", "-s", "--", "true"]).run().expect(64);
}

/// All users of the host can read a command line.
#[test]
fn a_token_on_the_command_line_is_warned_of() {
    let store = Store::local();
    let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
    let shown = format!("--token={}", token.trim());
    let warned = store.redlock(&["check", "-k", "X", &shown]).run().expect(0);
    assert!(warned.line().contains("use --token-file or REDLOCK_TOKEN"), "{warned:?}");
    assert_eq!(store.redlock(&["renew", "-q", "-k", "X", &shown]).run().expect(0).stderr, "");
    let kept = store.redlock(&["release", "-k", "X"]).env("REDLOCK_TOKEN", token.trim()).run().expect(0);
    assert_eq!(kept.stderr, "");
}
