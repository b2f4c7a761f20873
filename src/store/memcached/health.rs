//! The checks of `doctor` for a Memcached.

use super::connection::MemcachedConnection;
use super::store::Memcached;
use super::url::MemcachedAddress;
use crate::doctor::{Check, Finding, Findings, Level, Requirements, Trial, judge};
use crate::lock::{Key, Timeout};
use crate::sanitize::sanitize;
use crate::store::call_error::CallError;

/// For a call that failed, and for an answer that makes no sense.
const ADVICE: [&str; 2] =
    ["fix that first", "is something between redlock and Memcached (a proxy), or is it no Memcached?"];
/// The promises that this store cannot make.
const RESTART: &str = "two may hold one lock after a restart, as that forgets all locks";
const ELSEWHERE: &str =
    "use it where that does no harm; PostgreSQL, Redis with persistence and etcd keep their locks";

/// Examines the server, and the life of a lock.
pub fn examine(address: &MemcachedAddress, terms: &Requirements) -> Vec<Finding> {
    let mut report = Findings::about(address.to_string());
    report.note(Check::Encryption, "the connection is in plain", "use another store where others can listen");
    let mut connection = MemcachedConnection::new(address.server.clone());
    let timeout = Timeout::of(terms.attempt);
    match statistics(&mut connection, &timeout) {
        Ok(statistics) => judge_statistics(&statistics, &mut report),
        Err(CallError::Denied(why)) => {
            report.bad(Check::Login, why, "start Memcached without -Y, or use another store");
            return report.findings;
        }
        Err(error) => {
            let why = match error {
                CallError::NoAnswer { why, .. } | CallError::Unusable(why) => why,
                _ => "it did not answer".to_owned(),
            };
            report.bad(Check::Reachable, why, "is Memcached running there, and is this its port?");
            return report.findings;
        }
    }
    if report.findings.iter().any(|finding| finding.level == Level::Bad) {
        return report.findings;
    }
    let (mut holder, mut waiter) = (Memcached::new(address), Memcached::new(address));
    let key = Key::scratch();
    let lived = Trial { holder: &mut holder, waiter: &mut waiter, key: &key, attempt: terms.attempt }.run();
    judge(&lived, ADVICE, &mut report);
    if let Ok(measured) = &lived {
        terms.judge_ttl(measured.round_trip, &mut report);
    }
    report.findings
}

/// The answers to `stats` and to `stats settings`, with lines such as `STAT evictions 0`.
type Statistics = [Vec<String>; 2];

fn statistics(connection: &mut MemcachedConnection, timeout: &Timeout) -> Result<Statistics, CallError> {
    Ok([connection.lines(b"stats\r\n", timeout)?, connection.lines(b"stats settings\r\n", timeout)?])
}

fn judge_statistics([figures, settings]: &Statistics, report: &mut Findings) {
    report.ok(Check::Reachable, "it answers");
    report.ok(Check::Version, format!("Memcached {}", value(figures, "version")));
    if value(settings, "cas_enabled") == "no" {
        report.bad(Check::Locking, "it has no compare-and-swap", "start Memcached without -C");
    }
    let evicted = value(figures, "evictions");
    if value(settings, "evictions") == "off" {
        report.warning(
            Check::Eviction,
            format!("{RESTART}; when its memory is full, no lock is granted or renewed (-M)"),
            ELSEWHERE,
        );
    } else {
        report.warning(
            Check::Eviction,
            format!("{RESTART}; it may evict locks (so far it evicted {evicted} items)"),
            ELSEWHERE,
        );
    }
}

fn value(statistics: &[String], name: &str) -> String {
    let mut values = statistics.iter().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    values.find(|(known, _)| *known == name).map_or_else(|| "?".to_owned(), |(_, value)| sanitize(value))
}
