//! `--pool`: a device of several, with what the configuration says about it.

use std::fs;

use crate::harness::{Finished, Redlock, Store};

const PHONES: &str = r#"
server = "SERVER"
key-prefix = "lab/"

[keys."phone-*"]
ttl = "9m"

[pools.phones.phone-1]
labels = ["android", "old"]
serial = "0A1B"
port = 5037

[pools.phones.phone-2]
labels = "ios"
serial = "77"

[pools.phones.phone-3]
labels = ["android"]
usb-bus = "3"

[pools.lonely.one]
"#;

/// A tree below the prefix of a team. What a line says does not take a key out of it.
#[test]
fn a_tree_in_the_configuration() {
    let lab = Lab::new();
    let tree = "key-prefix = \"team/\"\npermits = 3\n[keys.\"data*\"]\ntree = true\ntake = 2\n";
    fs::write(&lab.1, format!("server = \"{}\"\n{tree}", lab.0.url)).expect("a file");
    let keys = ["-k", "data/eu/orders", "--", "printenv", "REDLOCK_KEY"];
    for options in [&["run"][..], &["run", "-x"]] {
        let ran = lab.redlock(&[options, &keys].concat()).run().expect(0);
        assert_eq!(ran.stdout, "team/data\nteam/data/eu\nteam/data/eu/orders\n");
    }
    for other in ["--shared", "--permits=2"] {
        let refused = lab.redlock(&[&["run", other][..], &keys].concat()).run().expect(78);
        assert!(
            refused.stderr.contains("it takes KEY alone; leave out --shared and --permits"),
            "{refused:?}"
        );
    }
    let script = "eval \"$(\"$0\" acquire -k data/eu --format env)\" && \"$0\" check && \"$0\" renew && \"$0\" release";
    let script = Redlock::under("sh", &["-c", script, env!("CARGO_BIN_EXE_redlock")]);
    script.env("REDLOCK_CONFIG", &lab.1).run().expect(0);
    // The same lock was not taken as a part of the tree.
    let file = lab.0.folder.path("token").display().to_string();
    let by_hand = |command, tree| {
        let call = lab.redlock(&[command, "-k", "data/us", "--token-file", &file]);
        call.env("REDLOCK_TREE", tree).run().code()
    };
    assert_eq!((by_hand("acquire", "false"), by_hand("release", "true")), (0, 0));
}

struct Lab(Store, String);

impl Lab {
    fn new() -> Lab {
        let store = Store::local();
        let file = store.folder.path("config.toml");
        fs::write(&file, PHONES.replace("SERVER", &store.url)).expect("a file");
        Lab(store, file.display().to_string())
    }

    fn redlock(&self, args: &[&str]) -> Redlock {
        Redlock::new(args).env("REDLOCK_CONFIG", &self.1)
    }

    fn run(&self, options: &[&str]) -> Finished {
        let show = "echo $REDLOCK_KEY; env | grep '^REDLOCK_POOL_.*=.' | sort";
        self.redlock(&[&["run", "--pool", "phones"], options, &["sh", "-c", show]].concat()).run()
    }
}

#[test]
fn the_command_finds_what_it_got() {
    let lab = Lab::new();
    let got =
        |options: &[&str]| lab.run(options).expect(0).stdout.lines().map(str::to_owned).collect::<Vec<_>>();
    let labels = "REDLOCK_POOL_LABELS=android old";
    assert_eq!(got(&[]), ["lab/phone-1", labels, "REDLOCK_POOL_PORT=5037", "REDLOCK_POOL_SERIAL=0A1B"]);
    assert_eq!(
        got(&["--with", "label=ios"]),
        ["lab/phone-2", "REDLOCK_POOL_LABELS=ios", "REDLOCK_POOL_SERIAL=77"]
    );
    let _first = lab.0.hold("lab/phone-1", &[]);
    let third = ["lab/phone-3", "REDLOCK_POOL_LABELS=android", "REDLOCK_POOL_USB_BUS=3"];
    assert_eq!(got(&["--with", "label=android", "--wait", "--"]), third);
    let refused = lab.run(&["--with", "label=android", "--with", "serial=0A1B"]).expect(75);
    assert!(refused.line().contains("'lab/phone-1' is held by "), "{refused:?}");
    // Settings for patterns of keys hold for the members.
    lab.redlock(&["acquire", "--pool", "phones", "--with", "label=ios", "--format", "env"]).run().expect(0);
    let left = lab.0.status("lab/phone-2")["holders"][0]["left_ms"].as_u64().expect("a lease");
    assert!(left > 500_000, "{left}");
}

#[test]
fn a_script_finds_what_it_got() {
    let lab = Lab::new();
    let acquire = ["acquire", "--pool", "phones", "--with", "serial=77", "--format", "env"];
    let exports = lab.redlock(&acquire).run().expect(0).stdout;
    for part in ["REDLOCK_KEY='lab/phone-2'", "REDLOCK_POOL_LABELS='ios'", "REDLOCK_POOL_SERIAL='77'"] {
        assert!(exports.contains(part), "{exports}");
    }
    lab.redlock(&["break", "--yes", "lab/phone-2"]).run().expect(0);
    lab.redlock(&["break", "--yes", "lab/phone-2"]).run().expect(0);
    let acquire = ["acquire", "--pool", "phones", "--with", "serial=77", "--format", "json"];
    let shown = lab.redlock(&acquire).run().expect(0).stdout;
    let acquired: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(
        (&acquired["key"], &acquired["pool"]["REDLOCK_POOL_SERIAL"]),
        (&"lab/phone-2".into(), &"77".into())
    );
    let bare = lab.redlock(&["acquire", "--pool", "phones"]).run().expect(64);
    assert!(bare.line().contains("does not say which of the locks it is for"), "{bare:?}");
    // A redlock inside the job takes none of these for a misspelt option.
    let inner = lab.redlock(&["status"]).env("REDLOCK_POOL_SERIAL", "77").run().expect(0);
    assert_eq!(inner.stderr, "");
}

#[test]
fn a_pool_that_is_none_is_named() {
    let lab = Lab::new();
    for (options, code, said) in [
        (
            &["--pool", "phone", "true"][..],
            78,
            "--pool: no configuration file has a pool 'phone'; did you mean phones?",
        ),
        (
            &["--pool", "lonely", "true"],
            78,
            "--pool: the pool 'lonely' has one member; add another one, or name its key with -k",
        ),
        (
            &["--pool", "phones", "--with", "label=watch", "true"],
            78,
            "--pool: no member of the pool 'phones' has label=watch",
        ),
        (
            &["--pool", "phones", "-p", "2", "true"],
            78,
            "--one-of: it takes an exclusive lock; for one of N equal places use --permits alone",
        ),
        (
            &["--pool", "phones", "-k", "x", "true"],
            64,
            "the argument '--pool <NAME>' cannot be used with '--key <KEY>'",
        ),
        (
            &["--pool", "phones", "--with", "android", "true"],
            64,
            "invalid value 'android' for '--with <NAME=VALUE>': give a name and a value, for example --with label=android",
        ),
        (&["--pool", "phones"], 64, "the command is missing"),
        (
            &["--pool", "phones", "--sequence", "1", "true"],
            78,
            "--sequence: each lock has a history of its own; name one of them",
        ),
    ] {
        let refused = lab.redlock(&[&["run"], options].concat()).run().expect(code);
        assert!(refused.stderr.contains(said), "{options:?}: {}", refused.stderr);
    }
}

#[test]
fn a_wrong_pool_is_found_by_a_check() {
    let store = Store::local();
    let file = store.folder.path("config.toml");
    for (text, said) in [
        (
            "[pools.a.b]\n\"x y\" = 1",
            "line 2: x y: a name is a letter, then letters, digits, - and _; it becomes a variable",
        ),
        ("[pools.a.b]\nx = [\"1\"]", "line 2: x: it takes one value, such as x = \"x\"; labels takes a list"),
        ("[pools.a]\nb = 1", "line 2: a pool has members; one begins with a line such as [pools.NAME.KEY]"),
        ("[pools.a.b]\nlabel = \"x\"", "line 2: label: the labels of a member are in its `labels`"),
        ("pools = 1", "line 1: a pool has members; one begins with a line such as [pools.NAME.KEY]"),
    ] {
        fs::write(&file, text).expect("a file");
        let refused = Redlock::new(&["config", "--check", file.to_str().expect("a path")]).run().expect(78);
        assert!(refused.stderr.contains(said), "{text}: {}", refused.stderr);
    }
}
