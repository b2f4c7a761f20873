//! The locks as they are now, as metrics.

use std::time::{SystemTime, UNIX_EPOCH};

use super::prometheus::{Exposition, Family};
use crate::lock::LockStatus;
use crate::sanitize::sanitize;

const HOLDERS: &str = "redlock_lock_holders";
const WAITERS: &str = "redlock_lock_waiters";
const HELD: &str = "redlock_lock_held_seconds";
const LEFT: &str = "redlock_lock_left_seconds";
const WAITED: &str = "redlock_lock_waited_seconds";
const FAMILIES: [Family; 5] = [
    (HOLDERS, "gauge", "How many hold the lock."),
    (WAITERS, "gauge", "How many wait for the lock."),
    (HELD, "gauge", "Time since the earliest grant of those who hold the lock."),
    (LEFT, "gauge", "Time until the first of their leases ends, unless it is renewed."),
    (WAITED, "gauge", "Time for which the one who waits longest has waited."),
];

/// Locks in Prometheus' text format.
pub fn lock_metrics(locks: &[LockStatus]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let age = |since: u64| (now - since as f64 / 1000.0).max(0.0);
    let mut exposition = Exposition::default();
    for lock in locks {
        let key = &exposition.key(&sanitize(lock.key.as_str()), HOLDERS);
        *exposition.series(HOLDERS, key, &[], 0.0) += lock.holders.len() as f64;
        *exposition.series(WAITERS, key, &[], 0.0) += lock.waiters.len() as f64;
        let mut most = |name, value: f64| {
            let series = exposition.series(name, key, &[], value);
            *series = series.max(value);
        };
        lock.holders.iter().filter_map(|holder| holder.since).for_each(|since| most(HELD, age(since)));
        lock.waiters.iter().for_each(|waiter| most(WAITED, age(waiter.metadata.since)));
        for left in lock.holders.iter().filter_map(|holder| holder.left) {
            let left = left.as_secs_f64();
            let series = exposition.series(LEFT, key, &[], left);
            *series = series.min(left);
        }
    }
    exposition.text(&FAMILIES)
}
