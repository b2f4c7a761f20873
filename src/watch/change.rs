//! The changes between two looks at the locks.

use std::collections::HashMap;

use crate::lock::{Holder, Key, LockStatus, Metadata, Waiter};
use crate::report::process;

/// The changes of the locks, in the words of a log. A look sees nothing of what came and went since the one before.
pub fn changes(before: &[LockStatus], after: &[LockStatus]) -> Vec<String> {
    let (was, is) = (by_key(before), by_key(after));
    let mut changes = Vec::new();
    for lock in after {
        compare(
            &lock.key,
            was.get(&lock.key).map_or(NOBODY, |lock| parties(lock)),
            parties(lock),
            &mut changes,
        );
    }
    for lock in before.iter().filter(|lock| !is.contains_key(&lock.key)) {
        compare(&lock.key, parties(lock), NOBODY, &mut changes);
    }
    changes
}

fn by_key(locks: &[LockStatus]) -> HashMap<&Key, &LockStatus> {
    locks.iter().map(|lock| (&lock.key, lock)).collect()
}

/// The holders and the waiters of a lock.
type Parties<'a> = (&'a [Holder], &'a [Waiter]);

const NOBODY: Parties = (&[], &[]);

fn parties(lock: &LockStatus) -> Parties<'_> {
    (&lock.holders, &lock.waiters)
}

fn compare(key: &Key, before: Parties, after: Parties, changes: &mut Vec<String>) {
    let mut add = |what: String| changes.push(format!("'{key}' {what}"));
    for holder in before.0 {
        match after.0.iter().find(|now| is_same(now, holder)) {
            None => add(format!("is not held by {} any more", name(holder))),
            Some(now) => match (&holder.broken, &now.broken) {
                (None, Some(by)) => add(format!("was broken by {by}")),
                _ if now.is_kept && !holder.is_kept => {
                    add("is kept by --min-hold: the job has ended".to_owned())
                }
                _ => {}
            },
        }
    }
    for holder in after.0.iter().filter(|now| !before.0.iter().any(|holder| is_same(now, holder))) {
        add(format!("is held by {}", name(holder)));
    }
    for waiter in after.1.iter().filter(|now| !before.1.iter().any(|waiter| is_same_waiter(now, waiter))) {
        add(format!("is waited for by {}", process(&waiter.metadata)));
    }
    let holds = |waiter: &Waiter| {
        let mut holders = after.0.iter().filter_map(|holder| holder.metadata.as_ref());
        holders.any(|holder| is_same_process(holder, &waiter.metadata))
    };
    let is_gone = |waiter: &&Waiter| !after.1.iter().any(|now| is_same_waiter(now, waiter)) && !holds(waiter);
    for waiter in before.1.iter().filter(is_gone) {
        add(format!("is not waited for by {} any more", process(&waiter.metadata)));
    }
}

/// A grant has a fencing token of its own; what another program holds has none.
fn is_same(one: &Holder, other: &Holder) -> bool {
    one.fence == other.fence && one.metadata.is_some() == other.metadata.is_some()
}

fn is_same_waiter(one: &Waiter, other: &Waiter) -> bool {
    is_same_process(&one.metadata, &other.metadata) && one.metadata.since == other.metadata.since
}

fn is_same_process(one: &Metadata, other: &Metadata) -> bool {
    (&one.host, one.pid) == (&other.host, other.pid)
}

fn name(holder: &Holder) -> String {
    holder.metadata.as_ref().map_or_else(|| "another program".to_owned(), process)
}

#[test]
fn grants_waiters_and_breaks_are_told() {
    use crate::lock::{Breaker, FencingToken, Mode};

    let process = |pid| Metadata { host: "web1".to_owned(), pid, ..Metadata::default() };
    let holder = |pid| Holder {
        metadata: Some(process(pid)),
        fence: Some(FencingToken(pid.into())),
        ..Holder::default()
    };
    let waiter = |pid| Waiter { mode: Mode::Exclusive, metadata: process(pid) };
    let lock = |holders: Vec<Holder>, waiters: Vec<Waiter>| {
        vec![LockStatus { key: "X".parse().expect("a key"), mode: Mode::Exclusive, holders, waiters }]
    };
    let broken = Holder { broken: Some(Breaker::new("anna", "web3", None)), ..holder(1) };
    for (before, after, expected) in [
        (vec![], lock(vec![holder(1)], vec![]), vec!["'X' is held by web1 (pid 1)"]),
        (lock(vec![holder(1)], vec![]), vec![], vec!["'X' is not held by web1 (pid 1) any more"]),
        (
            lock(vec![holder(1)], vec![]),
            lock(vec![holder(1)], vec![waiter(2)]),
            vec!["'X' is waited for by web1 (pid 2)"],
        ),
        (
            lock(vec![holder(1)], vec![waiter(2)]),
            lock(vec![holder(2)], vec![]),
            vec!["'X' is not held by web1 (pid 1) any more", "'X' is held by web1 (pid 2)"],
        ),
        (
            lock(vec![holder(1)], vec![waiter(2)]),
            lock(vec![holder(1)], vec![]),
            vec!["'X' is not waited for by web1 (pid 2) any more"],
        ),
        (lock(vec![holder(1)], vec![]), lock(vec![broken], vec![]), vec!["'X' was broken by anna@web3"]),
        (lock(vec![holder(1)], vec![waiter(2)]), lock(vec![holder(1)], vec![waiter(2)]), vec![]),
    ] {
        assert_eq!(changes(&before, &after), expected);
    }
}
