//! Fencing tokens grow.

use crate::harness::Store;

pub fn tokens_grow(store: &Store) {
    let first = granted(store);
    let second = granted(store);
    assert!(second > first, "after a release: {second} <= {first}");
    let ttl = store.ttl(1500);
    let acquired =
        store.redlock(&["acquire", "--key", "X", "--ttl", &ttl, "--format", "json"]).run().expect(0);
    let acquired: serde_json::Value = serde_json::from_str(&acquired.stdout).expect("JSON");
    let third = acquired["fence"].as_u64().expect("a fencing token");
    assert!(third > second, "by acquire: {third} <= {second}");
    let fourth = granted(store);
    assert!(fourth > third, "after the end of a lease: {fourth} <= {third}");
}

pub fn tokens_grow_when_the_store_forgets(store: &Store) {
    let before = granted(store);
    store.lose_everything();
    let after = granted(store);
    assert!(after > before, "{after} <= {before}");
}

/// The fencing token of a new grant.
fn granted(store: &Store) -> u64 {
    let args = ["run", "--key", "X", "--wait", "5m", "--quiet", "--", "sh", "-c", "echo $REDLOCK_FENCE"];
    store.redlock(&args).run().expect(0).stdout.trim().parse().expect("a fencing token")
}
