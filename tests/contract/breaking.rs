//! `redlock break`.

use crate::harness::{Redlock, Store, is_alive, pid_in};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

pub fn breaking_needs_a_yes(store: &Store) {
    store.redlock(&["break", "--key", "X", "--yes"]).run().expect(1);
    let holder = store.hold("X", &["--ttl", "60s"]);
    store.redlock(&["break", "--key", "X"]).run().expect(64);
    store.redlock(&["break", "--key", "X", "--yes", "--token", "not-the-one"]).run().expect(1);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    holder.let_go().expect(0);
}

/// The next one starts when the job is dead, not when the lock was broken.
pub fn breaking_stops_the_job_first(store: &Store) {
    let pid = store.folder.path("pid");
    let folder = store.folder.path("").display().to_string();
    let job = "cd \"$0\"; trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let ttl = store.ttl(3000);
    let mut holder =
        store.redlock(&["run", "--key", "X", "--ttl", &ttl, "--", "sh", "-c", job, &folder]).spawn();
    holder.await_file(&pid);
    let job = pid_in(&pid);
    let next = "cd \"$0\"; read -r pid < pid; ! [ /proc/$pid/cwd -ef . ]";
    let waiter = store.redlock(&["run", "--key", "X", "--wait", "--", "sh", "-c", next, &folder]).spawn();
    store.await_waiters("X", 1);
    store.redlock(&["break", "--key", "X", "--yes", "--reason", "stuck since 02:00"]).run().expect(0);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    let broken_by = store.status("X")["holders"][0]["broken_by"].clone();
    assert!(broken_by.as_str().is_some_and(|by| by.ends_with(": stuck since 02:00")), "{broken_by}");
    waiter.finish().expect(0);
    assert!(!is_alive(job));
    let told = holder.finish().expect(79);
    let by = format!("it was broken with `redlock break` by {}; ", broken_by.as_str().unwrap_or_default());
    assert!(told.line().contains(&by), "{told:?}");
}

/// Nobody has to be told: the job ended before.
pub fn breaking_ends_a_min_hold(store: &Store) {
    store.redlock(&["run", "--key", "X", "--min-hold", "1h", "--", "true"]).run().expect(0);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(75);
    store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// The script that acquired it has ended: nobody would see that it was broken.
pub fn breaking_what_nobody_keeps_takes_one_command(store: &Store) {
    let script = r#""$0" acquire --key X >/dev/null; exit"#;
    store.reached_by(Redlock::under("sh", &["-c", script, PROGRAM])).run().expect(0);
    assert_eq!(store.status("X")["holders"][0]["by_hand"], true);
    let broken = store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
    assert!(broken.line().starts_with("redlock: freed 'X', which was held by "), "{broken:?}");
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}
