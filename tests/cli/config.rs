//! Configuration for a fleet: named servers, settings for patterns of keys, profiles, and `redlock config`.

use std::fs;

use std::os::unix::fs::PermissionsExt;

use crate::harness::{Finished, Folder, Redlock, Store, namespaces, other_users};

/// A folder with a configuration file, in which SERVER stands for the URL of a store.
struct Fleet {
    store: Store,
    file: String,
}

impl Fleet {
    fn new(settings: &str) -> Fleet {
        let store = Store::local();
        let file = store.folder.path("config.toml");
        fs::write(&file, settings.replace("SERVER", &store.url)).expect("a file");
        Fleet { store, file: file.display().to_string() }
    }

    /// No variable names the server.
    fn redlock(&self, args: &[&str]) -> Redlock {
        Redlock::new(args).env("REDLOCK_CONFIG", &self.file)
    }

    /// The line of `redlock config` about this setting: its value, and the source.
    fn setting(&self, name: &str, args: &[&str]) -> (String, String) {
        let shown = self.redlock(&[&["config"], args].concat()).run().expect(0).stdout;
        let line = shown.lines().find(|line| line.starts_with(&format!("{name} = ")));
        let (setting, source) =
            line.unwrap_or_else(|| panic!("no {name} in {shown}")).split_once("  # ").expect("a source");
        let value = setting.split_once(" = ").expect("a value").1.trim().to_owned();
        (value, source.replace(&self.file, "FILE"))
    }
}

/// `status`, as of a table in one line.
fn holds(status: &Finished, key: &str) -> bool {
    status.stdout.lines().any(|line| line.split_whitespace().next() == Some(key))
}

#[test]
fn a_server_has_a_name() {
    let fleet = Fleet::new(
        "server = \"prod\"\nttl = \"9m\"\n[servers.prod]\nserver = \"SERVER\"\nttl = \"7m\"\n[servers.bare]\nuser = \"u\"\n",
    );
    let left = || fleet.store.status("X")["holders"][0]["left_ms"].as_u64().unwrap_or(0) / 60_000;
    fleet.redlock(&["acquire", "X"]).run().expect(0);
    assert_eq!(left(), 6, "the settings of the server are stronger");
    for redlock in [
        fleet.redlock(&["acquire", "X", "-S", "prod"]),
        fleet.redlock(&["acquire", "X"]).env("REDLOCK_SERVER", "prod"),
    ] {
        assert!(redlock.run().expect(75).line().contains("'X' is held"));
    }
    let misspelt = fleet.redlock(&["status", "-S", "prodd"]).run().expect(78);
    assert_eq!(misspelt.line(), "redlock: --server: unknown server 'prodd'; did you mean prod?");
    let bare = fleet.redlock(&["status", "-S", "bare"]).run().expect(78);
    assert!(bare.line().contains("[servers.bare] has no URL"), "{bare:?}");
    // A host that no section is about.
    let host = fleet.redlock(&["status", "-S", "localhost"]).run().expect(78);
    assert!(host.line().contains("did you mean redis://localhost?"), "{host:?}");
}

/// Of a weaker section not even a name counts, and a list of one server may be a name.
#[test]
fn the_strongest_section_names_the_server() {
    let fleet = Fleet::new(
        "server = \"prod\"\n[servers.prod]\nserver = \"SERVER\"\n[profiles.quorum]\nserver = [\"redis://a\", \"redis://b\"]\n[profiles.one]\nserver = [\"prod\"]\n[profiles.prdo]\nserver = \"prdo\"\n",
    );
    let server = |profile: &str| fleet.setting("server", &["--profile", profile]).0;
    assert_eq!(server("quorum"), "[\"redis://a\", \"redis://b\"]");
    assert_eq!(server("one"), format!("\"{}\"", fleet.store.url));
    let refused = fleet.redlock(&["status", "--profile", "prdo"]).run().expect(78);
    assert_eq!(
        refused.line().replace(&fleet.file, "FILE"),
        "redlock: FILE line 9: server: unknown server 'prdo'; did you mean prod?"
    );
}

#[test]
fn settings_for_patterns_of_keys() {
    let fleet = Fleet::new(
        "server = \"SERVER\"\nttl = \"1m\"\n[keys.\"deploy/*\"]\nttl = \"2m\"\nwait = \"5s\"\n[keys.\"deploy/web\"]\nttl = \"3m\"\npermits = 2\n[keys.\"a[1]\"]\nttl = \"4m\"\n[profiles.read]\nshared = true\n",
    );
    let ttl = |keys: &[&str]| fleet.setting("ttl", keys);
    assert_eq!(ttl(&[]), ("\"1m\"".to_owned(), "FILE line 2".to_owned()));
    assert_eq!(ttl(&["nightly"]).0, "\"1m\"");
    assert_eq!(ttl(&["deploy/api"]), ("\"2m\"".to_owned(), "FILE line 4".to_owned()));
    assert_eq!(ttl(&["deploy/web"]).0, "\"3m\"");
    assert_eq!((&*ttl(&["a[1]"]).0, &*ttl(&["a1"]).0), ("\"4m\"", "\"1m\""));
    // The stronger section undoes what contradicts it.
    fleet.redlock(&["acquire", "deploy/web", "--profile", "read"]).run().expect(0);
    assert_eq!(fleet.store.status("deploy/web")["kind"], "shared");
    // Of several keys, what is meant for all of them.
    let hold = |keys: &[&str]| {
        let keys: Vec<&str> = keys.iter().flat_map(|key| ["-k", key]).collect();
        fleet.redlock(&[&["acquire", "--format", "json"], &keys[..]].concat()).run().expect(0);
        fleet.store.status(keys[1])["holders"][0]["left_ms"].as_u64().unwrap_or(0) / 1000
    };
    assert!((110..=120).contains(&hold(&["deploy/a", "deploy/b"])));
    assert!((50..=60).contains(&hold(&["deploy/c", "nightly"])));
}

#[test]
fn profiles() {
    let fleet = Fleet::new(
        "server = \"SERVER\"\n[keys.\"*\"]\nttl = \"2m\"\n[profiles.cron]\nquiet = true\nconflict-exit-code = 0\nttl = \"4m\"\n",
    );
    fleet.redlock(&["acquire", "X"]).run().expect(0);
    let skipped = fleet.redlock(&["run", "X", "--profile", "cron", "--", "false"]).run().expect(0);
    assert_eq!(skipped.stderr, "", "{skipped:?}");
    fleet.redlock(&["run", "X", "--", "false"]).env("REDLOCK_PROFILE", "cron").run().expect(0);
    assert_eq!(
        fleet.setting("ttl", &["X", "--profile", "cron"]),
        ("\"4m\"".to_owned(), "FILE line 7".to_owned())
    );
    let missing = fleet.redlock(&["run", "X", "--profile", "corn", "--", "true"]).run().expect(78);
    assert_eq!(
        missing.line(),
        "redlock: --profile: no configuration file has a section [profiles.corn]; did you mean cron?"
    );
}

/// Each team sees its own locks, and writes their names without the prefix.
#[test]
fn a_prefix_for_the_keys_of_a_team() {
    let fleet =
        Fleet::new("server = \"SERVER\"\nkey-prefix = \"team-a/\"\n[keys.\"deploy/*\"]\nttl = \"2m\"\n");
    fleet.store.redlock(&["acquire", "other"]).run().expect(0);
    let printed = fleet.redlock(&["acquire", "deploy/web", "--format", "json"]).run().expect(0);
    let printed: serde_json::Value = serde_json::from_str(&printed.stdout).expect("JSON");
    assert!(fleet.store.status("team-a/deploy/web")["holders"][0]["left_ms"].as_u64() > Some(100_000));
    let all = fleet.redlock(&["status"]).run().expect(0);
    assert!(holds(&all, "team-a/deploy/web") && !holds(&all, "other"), "{all:?}");
    assert!(holds(&fleet.redlock(&["status", "deploy/*", "x*"]).run().expect(0), "team-a/deploy/web"));
    // What `acquire` printed is the whole key.
    let [key, token] = ["key", "token"].map(|name| printed[name].as_str().unwrap_or_default().to_owned());
    fleet.redlock(&["release"]).env("REDLOCK_KEY", &key).env("REDLOCK_TOKEN", &token).run().expect(0);
    let nested = ["run", "a", "--", env!("CARGO_BIN_EXE_redlock"), "run", "a", "--", "true"];
    fleet.redlock(&nested).run().expect(0);
    assert_eq!(
        fleet.setting("key-prefix", &["deploy/web"]),
        ("\"team-a/\"".to_owned(), "FILE line 2".to_owned())
    );
    let too_long = "k".repeat(510);
    assert!(fleet.redlock(&["run", &too_long, "--", "true"]).run().expect(64).line().contains("512 bytes"));
}

#[test]
fn config_shows_each_setting_with_its_source() {
    let fleet = Fleet::new(
        "[servers.prod]\nserver = [\"redis://u:canary@a:1\", \"redis://:canary@b:2\"]\nwait = true\nreplicas = 1\n",
    );
    fs::set_permissions(&fleet.file, PermissionsExt::from_mode(0o600)).expect("its mode");
    let shown = |args: &[&str]| {
        fleet
            .redlock(&[&["config"], args].concat())
            .env("REDLOCK_TTL", "1h")
            .env("REDISCLI_AUTH", "canary")
            .run()
            .expect(0)
    };
    let of_all = shown(&["--quiet"]);
    for line in
        ["# server = \"redis://127.0.0.1:6379\"", "quiet = true  # --quiet", "ttl = \"1h\"  # REDLOCK_TTL"]
    {
        let is_it = |shown: &str| shown.split_whitespace().eq(line.split_whitespace());
        assert!(of_all.stdout.lines().any(is_it), "{line}: {of_all:?}");
    }
    let of_prod = shown(&["-S", "prod"]);
    assert!(
        of_prod.stdout.contains("[\"redis://…@a:1\", \"redis://…@b:2\"]")
            && !of_prod.stdout.contains("canary"),
        "{of_prod:?}"
    );
    let refused = fleet.redlock(&["config"]).env("REDLOCK_TTL", "soon").run().expect(64);
    assert!(refused.line().contains("it is the value of REDLOCK_TTL"), "{refused:?}");
    // It is a configuration file.
    let copy = fleet.store.folder.path("copy.toml");
    fs::write(&copy, &of_all.stdout).expect("a file");
    let check = |path: &str| Redlock::new(&["config", "--check", path]).run();
    check(&copy.display().to_string()).expect(0);
    for (text, why) in [
        ("ttl = \"soon\"\n", "line 1: ttl = \"soon\": a duration looks like"),
        ("[keys.\"a*\"]\n\ntll = 1\n", "line 3: unknown setting 'tll'; did you mean ttl?"),
        (
            "[keys.\"a*\"]\nserver = \"local:\"\n",
            "[keys.\"a*\"]: server and key-prefix cannot differ between keys",
        ),
        ("[servers.a]\nserver = \"redsi://h\"\n", "line 2: server: redsi://h: "),
        ("[servers.a]\nserver = \"b\"\n", "line 2: server: "),
        ("[servers.a]\nserver = \" \"\n", "line 2: server = \" \": it is empty"),
        ("server = [\"a\", \"b\"]\n", "line 1: server: a: "),
        ("server = \"local:x\"\n", "line 1: server = \"local:x\": a path in a file begins with '/'"),
        ("\nlog-file = \"x\"\n", "line 2: log-file = \"x\": a path in a file begins with '/'"),
        ("log-file = \"\"\n", "line 1: log-file = \"\": a path in a file begins with '/'"),
        ("log-file = \"/dev/stderr\"\n", "line 1: log-file = \"/dev/stderr\": it takes a file"),
        ("password-file = \"x\"\n", "line 1: password-file = \"x\": a path"),
        ("sentinel-password-file = \"x\"\n", "line 1: sentinel-password-file = \"x\": a path"),
        ("[profiles.a]\ntls-ca = \"~/x\"\n", "line 2: tls-ca = \"~/x\": a path"),
        ("connect-timeout = 0\n", "line 1: connect-timeout = \"0\": it leaves no time"),
        ("servers = 1\n", "servers, keys and profiles have sections"),
        ("[servers]\nprod = \"redis://h\"\n", "servers, keys and profiles have sections"),
        ("[profiles.a.keys.b]\nttl = 1\n", "[profiles.\"a\"]: it contains another section"),
        ("key-prefix = \"redlock:{\"\n", "key-prefix: keys that begin with"),
        ("[profiles.a]\nshared = true\npermits = 2\n", "line 2: shared cannot be used with permits"),
        ("quiet = 1\nverbose = \"yes\"\n", "line 1: quiet cannot be used with verbose"),
    ] {
        fs::write(&copy, text).expect("a file");
        let refused = check(&copy.display().to_string()).expect(78);
        assert!(refused.line().contains(why), "{text}: {refused:?}");
    }
    let missing = check("/nonexistent/x.toml").expect(78);
    assert!(missing.line().contains("the file does not exist"), "{missing:?}");
}

/// What undoes a setting is in force in its place, and a setting without a variable is in force as well.
#[test]
fn config_shows_what_a_run_would_do() {
    let fleet =
        Fleet::new("shell = true\npermits = 3\nquiet = true\nwait = \"1s\"\n[profiles.p]\nverbose = false\n");
    let shown = |args: &[&str], variables: &[(&str, &str)]| {
        let redlock = fleet.redlock(&[&["config"], args].concat());
        let redlock = variables.iter().fold(redlock, |redlock, (name, value)| redlock.env(name, value));
        let lines = redlock.run().expect(0).stdout;
        let settings = lines.lines().filter(|line| !line.starts_with('#') && !line.starts_with("config"));
        let words = settings.map(|line| line.split_once("  #").unwrap_or_default().0.trim().to_owned());
        words.collect::<Vec<_>>().join(", ")
    };
    for (args, variables, expected) in [
        (&[][..], &[][..], "quiet = true, wait = \"1s\", permits = 3, shell = true"),
        (
            &["--profile", "p", "x"],
            &[],
            "quiet = true, verbose = false, wait = \"1s\", permits = 3, shell = true",
        ),
        (
            &["-v", "-k", "x"],
            &[("REDLOCK_SHARED", "1"), ("REDLOCK_QUIET", "1"), ("REDLOCK_FOR", "0")],
            "verbose = true, wait = \"1s\", shared = 1, for = 0, shell = true",
        ),
        (
            &[],
            &[("REDLOCK_SHARED", "no"), ("REDLOCK_PERMITS", "2"), ("REDLOCK_WAIT", "true")],
            "quiet = true, wait = true, shared = false, permits = 2, shell = true",
        ),
    ] {
        assert_eq!(shown(args, variables), expected);
    }
}

/// Runs a line of the shell, for which this folder is /etc and `$2` is redlock.
fn with_etc(folder: &Folder, line: &str) -> Finished {
    let script = format!("cp -a /etc/passwd /etc/nsswitch.conf \"$1\"; mount --bind \"$1\" /etc && {line}");
    let etc = folder.path("").display().to_string();
    let args = ["--mount", "sh", "-c", &script, "sh", &etc, env!("CARGO_BIN_EXE_redlock")];
    Redlock::under("unshare", &args).run()
}

/// It may name another server.
#[test]
fn a_file_of_the_system_that_cannot_be_read() {
    if !namespaces() || !other_users() {
        return;
    }
    let folder = Folder::new();
    fs::create_dir_all(folder.path("redlock/conf.d")).expect("a folder");
    for (secret, why) in [
        ("redlock/conf.d", "/etc/redlock/conf.d: cannot be read: Permission denied"),
        ("passwd", "cannot read /etc/passwd: Permission denied; name the configuration file with --config"),
    ] {
        let as_nobody = "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$2\" config";
        let line = format!("chmod 755 /etc/redlock/conf.d && chmod 700 /etc/{secret} && {as_nobody}");
        assert_eq!(with_etc(&folder, &line).expect(78).line(), format!("redlock: {why}"));
    }
}

/// As to a share that is not mounted.
#[test]
fn a_file_of_the_system_that_is_a_link_to_nothing() {
    if !namespaces() {
        return;
    }
    let folder = Folder::new();
    fs::create_dir_all(folder.path("redlock/conf.d")).expect("a folder");
    for name in ["config.toml", "conf.d/10-share.toml"] {
        let line = format!("ln -s /nowhere/x.toml /etc/redlock/{name} && exec \"$2\" config");
        let refused = with_etc(&folder, &line).expect(78);
        assert!(
            refused.line().starts_with(&format!("redlock: /etc/redlock/{name}: cannot be read")),
            "{refused:?}"
        );
        fs::remove_file(folder.path(&format!("redlock/{name}"))).expect("the link");
    }
}

/// The last of the folder is the strongest, the user's file is stronger than all of them.
#[test]
fn files_of_the_system() {
    if !namespaces() {
        return;
    }
    let folder = Folder::new();
    for (name, text) in [
        ("config.toml", "ttl = 1\nwait = 1\nlabel = \"one\"\nsplay = 1\n"),
        ("conf.d/10-b.toml", "ttl = 2\nlabel = \"two\"\nsplay = 2\n"),
        ("conf.d/20-a.toml", "label = \"three\"\nsplay = 3\n"),
        ("conf.d/30.toml.bak", "label = \"four\"\n"),
        ("user.toml", "splay = 4\n"),
    ] {
        let path = folder.path(&format!("redlock/{name}"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let shown = with_etc(&folder, "exec \"$2\" config --config /etc/redlock/user.toml").expect(0).stdout;
    for (setting, file) in [
        ("ttl = 2", "conf.d/10-b.toml line 1"),
        ("wait = 1", "config.toml line 2"),
        ("label = \"three\"", "conf.d/20-a.toml line 1"),
        ("splay = 4", "user.toml line 1"),
    ] {
        let is_it = |line: &str| line.starts_with(setting) && line.ends_with(&format!("/etc/redlock/{file}"));
        assert!(shown.lines().any(is_it), "{setting}: {shown}");
    }
}

/// A configuration names hooks, which are commands: nobody else may have written it.
#[test]
fn a_file_that_others_can_change_is_refused() {
    let store = Store::local();
    let (file, proof) = (store.folder.path("config.toml"), store.folder.path("proof"));
    fs::write(&file, format!("on-acquire = \"touch {}\"\n", proof.display())).expect("a file");
    // A hook has a second after the end of the command.
    let job = ["sh", "-c", "until [ -e \"$0\" ]; do sleep 0.1; done", proof.to_str().expect("a path")];
    let lock = ["--config", file.to_str().expect("a path"), "run", "-k", "X", "--"];
    let run = || store.redlock(&[&lock[..], &job].concat());
    for mode in [0o666, 0o664, 0o646] {
        fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("its mode");
        let refused = run().run().expect(78);
        assert!(refused.line().ends_with("config.toml: others can change it; chmod go-w it"), "{refused:?}");
    }
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("its mode");
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(65534), None).expect("its owner");
        assert!(run().run().expect(78).line().contains("it belongs to user 65534"));
        std::os::unix::fs::chown(&file, Some(0), None).expect("its owner");
    }
    assert!(!proof.exists());
    run().run().expect(0);
}
