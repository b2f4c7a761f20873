//! Keys of a tree: `--tree`.

use std::fs;

use crate::harness::Store;

fn run(store: &Store, options: &[&str]) -> i32 {
    store.redlock(&[&["run"][..], options, &["--", "true"]].concat()).run().code()
}

/// A key excludes those above and below it, and none beside it.
pub fn a_key_excludes_those_above_and_below(store: &Store) {
    let below = store.hold("data/eu/orders/new", &["--tree"]);
    for busy in ["data", "data/eu", "data/eu/orders", "data/eu/orders/new"] {
        assert_eq!((run(store, &["--tree", "-k", busy]), run(store, &["-k", busy])), (75, 75), "{busy}");
    }
    for free in ["data/us", "data/eu/users", "data/eu/orders/old", "datas"] {
        assert_eq!(run(store, &["--tree", "-k", free]), 0, "{free}");
    }
    assert_eq!(store.status("data/eu")["kind"], "shared");
    below.let_go().expect(0);
    let above = store.hold("data/eu", &["--tree"]);
    for busy in ["data", "data/eu/orders", "data/eu/orders/new"] {
        assert_eq!(run(store, &["--tree", "-k", busy]), 75, "{busy}");
    }
    assert_eq!(run(store, &["--tree", "-k", "data/us/orders"]), 0);
    above.let_go().expect(0);
    for key in ["data", "data/eu", "data/eu/orders"] {
        assert!(store.status(key)["holders"][0].is_null(), "{key}");
    }
}

/// Who waits for all of it is not overtaken by those who want a part.
pub fn who_wants_a_part_waits_for_who_wants_all(store: &Store) {
    let part = store.hold("data/eu", &["--tree"]);
    let all = store.wait_in_line("data", "all", &["--tree"]);
    store.await_waiters("data", 1);
    assert_eq!(run(store, &["--tree", "-k", "data/us"]), 75);
    let later = store.wait_in_line("data/us", "part", &["--tree"]);
    store.await_waiters("data", 2);
    part.let_go().expect(0);
    all.finish().expect(0);
    later.finish().expect(0);
    assert_eq!(store.order(), ["all", "part"]);
}

/// A job has the whole subtree: its own commands may lock parts of it.
pub fn a_job_may_lock_parts_of_its_own_tree(store: &Store) {
    let inner = r#""$0" run --tree -k data/eu/orders/new -- sh -c 'echo "$REDLOCK_KEY"'"#;
    let outer = ["run", "--tree", "-k", "data/eu", "--", "sh", "-c", inner, env!("CARGO_BIN_EXE_redlock")];
    assert_eq!(store.redlock(&outer).run().expect(0).stdout, "data/eu/orders\ndata/eu/orders/new\n");
    let inner = r#""$0" run --tree -k data/eu -- true"#;
    let outer =
        ["run", "--tree", "-k", "data/eu/orders", "--", "sh", "-c", inner, env!("CARGO_BIN_EXE_redlock")];
    let refused = store.redlock(&outer).run().expect(78);
    assert!(refused.stderr.contains("an enclosing job holds 'data/eu' as shared"), "{refused:?}");
}

/// With the token file, and with the variables of `acquire`.
pub fn a_tree_by_hand(store: &Store) {
    let file = store.folder.path("token");
    let file = file.to_str().expect("a path");
    let by_hand = |command: &str, options: &[&str]| {
        let words =
            [&[command, "-k", "data/eu/orders", "--tree", "--token-file", file][..], options].concat();
        store.redlock(&words).run().code()
    };
    assert_eq!(by_hand("acquire", &["--ttl", "60s"]), 0);
    assert_eq!((by_hand("check", &[]), by_hand("renew", &[])), (0, 0));
    assert_eq!((run(store, &["-k", "data"]), by_hand("release", &[])), (75, 0));
    assert_eq!(run(store, &["-k", "data"]), 0);
    fs::remove_file(file).expect("the token file");
    let program = env!("CARGO_BIN_EXE_redlock");
    let script =
        r#"eval "$("$0" acquire --tree -k data/eu/orders --ttl 60s --format env)" && "$0" release --tree"#;
    let script = crate::harness::Redlock::under("sh", &["-c", script, program]);
    store.reached_by(script).run().expect(0);
    for key in ["data", "data/eu", "data/eu/orders"] {
        assert!(store.status(key)["holders"][0].is_null(), "{key}");
    }
}
