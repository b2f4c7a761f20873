//! What becomes of a lock in Redis when another program removes its key, or all of its data.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::harness::{Redis, Running, Store, eventually, slowed, ttl};

fn server(store: &Store) -> &Redis {
    store.redis.as_ref().expect("a Redis")
}

/// Its owner is alive, and about to renew: `break` tells it, and lets nobody in.
#[test]
fn a_removed_lock_is_broken_as_any_other() {
    let store = Store::redis();
    let holder = store.hold("X", &["--ttl", "10m"]);
    server(&store).cli(&["del", "X"]);
    let broken = store.redlock(&["break", "-k", "X", "--yes"]).run().expect(0);
    assert!(broken.line().contains("broke 'X', held by"), "{broken:?}");
    let status = store.status("X");
    assert_eq!(
        (&status["holders"][0]["broken"], &status["holders"][0]["pid"]),
        (&true.into(), &holder.pid().into())
    );
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    // Its job ended first, which completes the break.
    holder.let_go().expect(0);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// The release finds out, as the job ended before a renewal was due. Nobody else got in.
#[test]
fn a_removed_lock_that_nobody_was_granted_is_no_loss() {
    let quorum = Store::quorum3();
    let single = Store::redis();
    for options in [&[][..], &["--shared"], &["--permits", "2"]] {
        let majority = (&quorum, quorum.members.iter().take(2).collect());
        let removed: [(&Store, Vec<&Redis>); 2] = [(&single, vec![server(&single)]), majority];
        // A quorum has exclusive locks only.
        for (store, servers) in removed.into_iter().take(if options.is_empty() { 2 } else { 1 }) {
            let holder = store.hold("X", &[&["--ttl", "10m"], options].concat());
            for server in servers {
                server.cli(&["del", "X"]);
            }
            holder.let_go().expect(0);
            store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
        }
    }
    // Whoever releases by hand hears that the lock was gone.
    let token = single.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
    server(&single).cli(&["del", "X"]);
    single.redlock(&["release", "-k", "X", "--token", token.trim()]).run().expect(1);
}

#[test]
fn a_removed_lock_of_readers_has_a_name_still() {
    let store = Store::redis();
    let holder = reader(&store, &[]);
    server(&store).cli(&["del", "X"]);
    let refused = store.redlock(&["break", "-k", "X", "--token", "other", "--yes"]).run().expect(1);
    assert!(refused.line().contains(&format!("pid {}", holder.pid())), "{refused:?}");
    holder.let_go().expect(0);
}

fn fences(store: &Store) -> Vec<u64> {
    let status = store.status("X");
    let holders = status["holders"].as_array().map_or(&[][..], Vec::as_slice);
    holders.iter().filter_map(|holder| holder["fence"].as_u64()).collect()
}

fn reader(store: &Store, options: &[&str]) -> Running {
    let before = fences(store).len();
    let args = [&["run", "-k", "X", "--shared"], options, &["--", "cat"]].concat();
    let reader = store.redlock(&args).open_stdin().spawn();
    eventually(slowed(20_000), "one more reader", || fences(store).len() == before + 1);
    reader
}

/// The readers come back one after the other, and any of them may have the highest number.
#[test]
fn tokens_grow_when_readers_come_back() {
    let store = Store::redis();
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock") + Duration::from_secs(3600);
    server(&store).cli(&["hset", "redlock:{X}:state", "fence", &hour.as_micros().to_string()]);
    // The first one renews first.
    let options = [["--ttl", &ttl(3000)], ["--ttl", &ttl(9000)]];
    let readers = options.map(|options| reader(&store, &options));
    let highest = fences(&store).into_iter().max();
    server(&store).cli(&["flushall"]);
    eventually(slowed(30_000), "both are back", || fences(&store).len() == 2);
    let third = reader(&store, &[]);
    let newest = fences(&store).into_iter().max();
    assert!(newest > highest, "{newest:?} after {highest:?}");
    assert_eq!(fences(&store).len(), 3);
    readers.into_iter().chain([third]).for_each(|reader| drop(reader.let_go().expect(0)));
}
