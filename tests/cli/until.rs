//! `acquire --until`: what is a time, and what goes with it.

use crate::harness::Store;

#[test]
fn a_time_that_is_none_takes_nothing() {
    let store = Store::local();
    for (time, why) in [
        ("6pm", "a time looks like 18:00"),
        ("2001-01-01 10:00", "it is in the past"),
        ("2999-01-01T00:00:00Z", "longer than a year"),
    ] {
        let refused = store.redlock(&["acquire", "X", "--until", time]).run().expect(64);
        assert!(refused.line().contains(why), "{refused:?}");
    }
    for options in [&["--ttl", "5s"][..], &["--wait"], &["--while-pid", "1"]] {
        let args = [&["acquire", "X", "--until", "18:00"], options].concat();
        let refused = store.redlock(&args).run().expect(64);
        assert!(refused.line().contains("--until") && refused.line().contains(options[0]), "{refused:?}");
    }
    store.redlock(&["acquire", "X", "--reason", "test"]).run().expect(64);
    assert!(store.status("X")["holders"][0].is_null());
}

/// A variable, or a file, is about other locks.
#[test]
fn a_configured_ttl_and_wait_give_way() {
    let store = Store::local();
    let file = store.folder.path("config.toml");
    std::fs::write(&file, "wait = true\nttl = \"1s\"\n").expect("a file");
    let reserve =
        |time| store.redlock(&["acquire", "X", "--until", time, "--config", file.to_str().expect("a path")]);
    reserve("23:59").env("REDLOCK_TTL", "2s").env("REDLOCK_WAIT", "1h").env("TZ", "UTC").run().expect(0);
    let holder = &store.status("X")["holders"][0];
    let until = holder["reserved_until"].as_str().expect("a time");
    assert!(until.ends_with("T23:59:00.000Z"), "{until}");
    assert!(holder["reason"].is_null(), "{holder}");
    reserve("12:00").env("REDLOCK_WAIT", "1h").run().expect(75);
}
