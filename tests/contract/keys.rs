//! Odd keys.

use crate::harness::Store;

/// Names that something between the prompt and the store could take for more than a name.
fn odd() -> Vec<String> {
    let odd = [
        "two words",
        " ",
        "*",
        "a?[b]",
        "a{b}c",
        "{}",
        "a}b",
        "}{",
        "{{a}}",
        "..",
        "/",
        "../../etc/passwd",
        "🔒🔑",
        "é",
        "100%",
        "a:b",
        "'\"`$(id)",
        "-",
        "--key",
        "\\",
        "NULL",
        // pottery's name for its lock X.
        "redlock:X",
    ];
    odd.iter().map(|key| (*key).to_owned()).chain(["x".repeat(512)]).collect()
}

pub fn odd_keys_are_keys(store: &Store) {
    for key in odd() {
        let name = format!("--key={key}");
        let holder = store.redlock(&["acquire", &name]).run().expect(0);
        let busy = store.redlock(&["run", &name, "--", "true"]).run().expect(75);
        assert!(busy.line().contains(&format!("'{key}' is held by")), "{busy:?}");
        let waiter =
            store.redlock(&["run", &name, "--wait", "--", "sh", "-c", "printf %s \"$REDLOCK_KEY\""]).spawn();
        await_waiter(store, &key);
        store.redlock(&["release", &name, "--token", holder.stdout.trim()]).run().expect(0);
        assert_eq!(waiter.finish().expect(0).stdout, key);
    }
}

/// All of them are held at the same time, and all are found without being named.
pub fn odd_keys_are_apart(store: &Store) {
    for key in odd() {
        store.redlock(&["acquire", &format!("--key={key}"), "--ttl", "5m"]).run().expect(0);
    }
    // Memcached does not list its locks.
    let named: Vec<String> = odd().iter().map(|key| format!("--key={key}")).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).filter(|_| store.is_memcached()).collect();
    let mut shown: Vec<String> = locks(store, &named)
        .iter()
        .filter(|lock| lock["holders"][0]["pid"].is_u64())
        .map(|lock| lock["key"].as_str().expect("a key").to_owned())
        .collect();
    let mut expected = odd();
    shown.sort();
    expected.sort();
    assert_eq!(shown, expected);
}

fn await_waiter(store: &Store, key: &str) {
    crate::harness::eventually(std::time::Duration::from_secs(20), &format!("a waiter for {key:?}"), || {
        locks(store, &[&format!("--key={key}")])[0]["waiters"][0].is_object()
    });
}

fn locks(store: &Store, keys: &[&str]) -> Vec<serde_json::Value> {
    let output = store.redlock(&[&["status", "--json"], keys].concat()).run().expect(0);
    serde_json::from_str(&output.stdout).expect("JSON")
}
