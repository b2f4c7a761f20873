//! Which of the waiters goes first.

use std::fs;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use crate::harness::{Store, eventually};

/// It sends home whoever came earlier with the same option, while the lock is held and when it is handed over.
pub fn the_last_one_supersedes(store: &Store) {
    let supersede = &["--supersede"];
    let holder = store.hold("X", &[]);
    let first = store.wait_in_line("X", "first", supersede);
    store.await_waiters("X", 1);
    let plain = store.wait_in_line("X", "plain", &[]);
    store.await_waiters("X", 2);
    let second = store.wait_in_line("X", "second", supersede);
    let by = second.pid();
    let told = first.finish().expect(75).stderr;
    assert!(told.contains("gave way for 'X' to ") && told.contains(&format!("(pid {by}")), "{told}");
    store.await_waiters("X", 2);
    let third = store.wait_in_line("X", "third", supersede);
    let third_pid = u64::try_from(third.pid()).expect("a pid");
    eventually(Duration::from_secs(60), "the third waits", || {
        let lock = store.status("X");
        lock["waiters"]
            .as_array()
            .is_some_and(|waiters| waiters.iter().any(|waiter| waiter["pid"] == third_pid))
    });
    holder.let_go().expect(0);
    plain.finish().expect(0);
    second.finish().expect(75);
    third.finish().expect(0);
    assert_eq!(store.order(), ["plain", "third"]);
}

/// The queue is in the order of the priorities, and equals are in the order of their arrival.
pub fn the_highest_priority_goes_first(store: &Store) {
    let holder = store.hold("X", &[]);
    let come =
        [("late", "-5"), ("plain", "0"), ("first", "100"), ("second", "7"), ("third", "7"), ("last", "-100")];
    let waiters: Vec<_> = (1..)
        .zip(come)
        .map(|(count, (name, priority))| {
            let waiter = store.wait_in_line("X", name, &["--label", name, "--priority", priority]);
            store.await_waiters("X", count);
            waiter
        })
        .collect();
    let expected = ["first", "second", "third", "plain", "late", "last"];
    let lock = store.status("X");
    let shown = |place: usize| {
        (lock["waiters"][place]["label"].as_str(), lock["waiters"][place]["priority"].as_i64())
    };
    assert_eq!(
        [0, 1, 3, 5].map(shown),
        [("first", 100), ("second", 7), ("plain", 0), ("last", -100)]
            .map(|(name, priority)| (Some(name), Some(priority)))
    );
    holder.let_go().expect(0);
    for waiter in waiters {
        waiter.finish().expect(0);
    }
    assert_eq!(store.order(), expected);
}

/// Who comes with a high priority does not take the lock from who has it, and its death holds up nobody.
pub fn a_dead_waiter_of_a_high_priority_is_skipped(store: &Store) {
    let holder = store.hold("X", &[]);
    let plain = store.wait_in_line("X", "plain", &[]);
    store.await_waiters("X", 1);
    let dead = store.wait_in_line("X", "dead", &["--priority", "1"]);
    store.await_waiters("X", 2);
    dead.signal(Signal::SIGKILL);
    dead.finish().expect(-9);
    holder.let_go().expect(0);
    plain.finish().expect(0);
    assert_eq!(store.order(), ["plain"]);
}

/// A request that does not wait overtakes nobody, whatever the priority of those who do.
pub fn who_does_not_wait_overtakes_nobody(store: &Store) {
    let reader = store.hold("X", &["--shared"]);
    let writer = store.wait_in_line("X", "writer", &["--priority", "-5"]);
    store.await_waiters("X", 1);
    for priority in ["0", "100"] {
        store.redlock(&["run", "X", "--shared", "--priority", priority, "--", "true"]).run().expect(75);
    }
    let ahead = store.wait_in_line("X", "reader", &["--shared", "--priority", "1"]);
    ahead.finish().expect(0);
    reader.let_go().expect(0);
    writer.finish().expect(0);
    assert_eq!(store.order(), ["reader", "writer"]);
}

/// Neither a trap, nor a session of its own, nor the end of its parent keeps a process of the old job alive.
const STUBBORN: &str = r#"trap "" TERM; echo $$ >> "$0"; (setsid sleep 600 & echo $! >> "$0"); sleep 600 & echo $! >> "$0"; cat; wait"#;
/// Names each process of the old job that could still do something.
const WITNESS: &str = r#"while read -r pid; do
    case $(cut -d" " -f3 "/proc/$pid/stat" 2>/dev/null) in ""|Z|X) ;; *) echo "$pid is alive" ;; esac
done < "$0"; echo new"#;

pub fn the_old_job_is_dead_before_its_replacement_begins(store: &Store) {
    let (ttl, pids) = (store.ttl(3000), store.folder.path("pids"));
    let pids = pids.to_str().expect("a path");
    let old = ["run", "--key", "X", "--ttl", &ttl, "--kill-after", "500ms", "--", "sh", "-c", STUBBORN, pids];
    let old = store.redlock(&old).open_stdin().spawn();
    let is_ready = || fs::read_to_string(pids).is_ok_and(|pids| pids.lines().count() == 3);
    eventually(Duration::from_secs(60), "the old job has three processes", is_ready);
    let new = ["run", "--key", "X", "--wait", "--replace", "--", "sh", "-c", WITNESS, pids];
    let new = store.redlock(&new).run().expect(0);
    assert_eq!(new.stdout, "new\n");
    assert!(new.stderr.contains("broke 'X', held by "), "{new:?}");
    let old = old.finish().expect(79);
    assert!(old.stderr.contains(": a later run replaces it (--replace)"), "{old:?}");
}

/// Who was in line already is neither replaced nor sent home without the option.
pub fn a_replacement_waits_for_those_who_came_before(store: &Store) {
    let ttl = store.ttl(3000);
    let holder = store.hold("X", &["--ttl", &ttl]);
    let plain = store.wait_in_line("X", "plain", &[]);
    store.await_waiters("X", 1);
    let replaced = store.wait_in_line("X", "replaced", &["--supersede"]);
    store.await_waiters("X", 2);
    let new = store.wait_in_line("X", "new", &["--replace"]);
    holder.finish().expect(79);
    plain.finish().expect(0);
    replaced.finish().expect(75);
    new.finish().expect(0);
    assert_eq!(store.order(), ["plain", "new"]);
}

/// A reservation is a person's, and no run ends it.
pub fn who_reserved_it_is_not_replaced(store: &Store) {
    let end = humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(3600)).to_string();
    let reserve = ["acquire", "X", "--until", &end, "--reason", "a load test"];
    let reserved = store.redlock(&reserve).run().expect(0);
    store.redlock(&["run", "X", "--wait=2s", "--replace", "--", "true"]).run().expect(75);
    let holder = store.status("X")["holders"][0].clone();
    assert_eq!((&holder["reason"], &holder["broken"]), (&"a load test".into(), &false.into()));
    let token = reserved.stdout.trim();
    store.redlock(&["release", "X"]).env("REDLOCK_TOKEN", token).run().expect(0);
}
