//! The checks that a server keeps the locks that it has.

use std::collections::HashMap;
use std::time::Duration;

use super::info::Facts;
use crate::doctor::{Check, Findings, Requirements};
use crate::lock::DurationText;

/// A server that is this full will soon refuse locks, or evict them.
const NEARLY_FULL: u64 = 90;

/// Every policy but noeviction takes away locks, which are keys with a TTL like those of a cache; tried with Redis
/// 7.0: allkeys-lru, volatile-lru and volatile-ttl all did.
pub fn eviction(facts: &Facts, report: &mut Findings) {
    let policy = facts.info("maxmemory_policy").or(facts.setting("maxmemory-policy"));
    let maximum = facts.info("maxmemory").or(facts.setting("maxmemory"));
    let maximum = maximum.and_then(|bytes| bytes.parse::<u64>().ok());
    let used = facts.info_number("used_memory").unwrap_or(0);
    let change = "set maxmemory-policy noeviction, or give locks a server of their own";
    match (policy, maximum) {
        (None, _) => {
            let advice = "make sure that it is noeviction";
            facts.unseen(report, Check::Eviction, "could not see maxmemory-policy", advice);
        }
        (Some("noeviction"), Some(maximum @ 1..)) if used.saturating_mul(100) / maximum >= NEARLY_FULL => {
            let finding =
                format!("{used} of maxmemory {maximum} bytes are in use: soon it will refuse locks");
            report.warning(Check::Eviction, finding, "raise maxmemory or free some");
        }
        (Some("noeviction"), _) => report.ok(Check::Eviction, "maxmemory-policy is noeviction"),
        (Some(policy), Some(0)) => {
            let finding = format!("maxmemory-policy is {policy}: it would evict locks if maxmemory were set");
            report.warning(Check::Eviction, finding, change);
        }
        (Some(policy), maximum) => {
            let bytes = maximum.map(|bytes| format!("maxmemory {bytes}"));
            let maximum = bytes.unwrap_or("a maxmemory that could not be seen".to_owned());
            let why = "when memory is short, it evicts locks that are held";
            let finding = format!("maxmemory-policy is {policy} with {maximum}: {why}");
            report.bad(Check::Eviction, finding, change);
        }
    }
}

/// Judges what the server still has after a restart.
pub fn restart(facts: &Facts, terms: &Requirements, is_in_quorum: bool, report: &mut Findings) {
    let has_log = facts.info("aof_enabled").map(|enabled| enabled == "1");
    let has_log = has_log.or(facts.setting("appendonly").map(|enabled| enabled == "yes"));
    match has_log {
        None => {
            let what = "could not see whether locks survive a restart";
            facts.unseen(report, Check::Persistence, what, "make sure that appendonly is on");
        }
        Some(true) => log(facts, is_in_quorum, report),
        Some(false) if is_in_quorum => nothing_kept_in_quorum(facts, terms, report),
        Some(false) => {
            let advice = "set appendonly yes; until then holders notice it at their next renewal and take the \
                          lock again where nobody else did, and waiters let the old lease end";
            // They follow the master into the state in which it came up.
            let has_replicas = facts.info_number("connected_slaves").is_some_and(|count| count > 0);
            let too = if has_replicas { ", on its replicas as well" } else { "" };
            let finding = format!("{}: a restart frees locks that are held{too}", kept(facts));
            report.warning(Check::Persistence, finding, advice);
        }
    }
}

/// Says what a server without the append-only file writes to the disk.
fn kept(facts: &Facts) -> &'static str {
    match facts.setting("save") {
        Some("") => "neither appendonly nor snapshots (save)",
        _ => "appendonly is off, and snapshots (save) lack the last minutes",
    }
}

fn log(facts: &Facts, is_in_quorum: bool, report: &mut Findings) {
    match facts.setting("appendfsync") {
        Some("always") => report.ok(Check::Persistence, "appendonly with appendfsync always"),
        Some(sync) if is_in_quorum => {
            let loss = "after a power cut the server does not know the last locks, and its vote goes to a \
                        second holder";
            let finding = format!("appendonly with appendfsync {sync}: {loss}");
            let advice =
                "set appendfsync always, or restart it after a power cut no sooner than the longest TTL";
            report.warning(Check::Persistence, finding, advice);
        }
        Some(sync) => {
            let loss = match sync {
                "everysec" => "a power cut loses the last second of locks",
                _ => "a power cut loses the locks that the kernel had not written",
            };
            report.ok(Check::Persistence, format!("appendonly with appendfsync {sync}: {loss}"));
        }
        None if is_in_quorum => {
            let what = "appendonly is on; could not see appendfsync";
            facts.unseen(report, Check::Persistence, what, "make sure that it is always");
        }
        None => report.ok(Check::Persistence, "appendonly is on"),
    }
}

/// One member that restarts empty at once breaks mutual exclusion; restarted after the longest TTL it does not. See
/// "Performance, crash recovery and fsync" in the description of the Redlock algorithm.
fn nothing_kept_in_quorum(facts: &Facts, terms: &Requirements, report: &mut Findings) {
    let ttl = terms.ttl;
    let finding = format!("{}: after a restart its vote goes to a second holder", kept(facts));
    let advice = format!(
        "set appendonly yes and appendfsync always, or see to it that it stays down for longer than the longest TTL \
         ({ttl} here) before it starts again, and then this may be ignored"
    );
    report.bad(Check::Persistence, finding, advice);
    match facts.info_number("uptime_in_seconds").map(Duration::from_secs) {
        Some(uptime) if uptime < ttl.duration() => {
            let finding = format!(
                "it started {} ago, less than a TTL of {ttl}: locks that others hold may be unknown to it",
                DurationText(uptime)
            );
            report.bad(Check::Uptime, finding, format!("take no locks until it has been up for {ttl}"));
        }
        Some(uptime) => report.ok(Check::Uptime, format!("it started {} ago", DurationText(uptime))),
        None => {
            let advice = format!("make sure that it was not within the last {ttl}");
            facts.unseen(report, Check::Uptime, "could not see when it started", advice);
        }
    }
}

/// A replica acknowledges every second. One that has not done so for this many seconds does not protect a lock.
const LAGGING: u64 = 10;

/// The replicas, to which `--replicas` refers; a member of a quorum is to be independent of the others.
pub fn replicas(facts: &Facts, terms: &Requirements, is_in_quorum: bool, report: &mut Findings) {
    let wanted = u64::from(terms.replicas);
    let Some(connected) = facts.info_number("connected_slaves") else {
        if wanted > 0 && !is_in_quorum {
            let advice = format!("make sure that --replicas {wanted} are there");
            facts.unseen(report, Check::Replicas, "could not see the replicas", advice);
        }
        return;
    };
    let all = (0..connected).filter_map(|number| facts.info(&format!("slave{number}")));
    let late: Vec<String> = all.filter_map(lagging).collect();
    let good = connected.saturating_sub(late.len() as u64);
    if is_in_quorum && connected > 0 {
        let advice = "see to it that none of them takes its place: it may lack the last locks, and its vote \
                      would go to a second holder";
        report.note(Check::Replicas, format!("{connected}, for which nobody can wait in a quorum"), advice);
    } else if is_in_quorum {
        report.ok(Check::Replicas, "none");
    } else if good < wanted {
        let finding =
            format!("--replicas {wanted}, and {good} are there and follow: no lock will be granted");
        report.bad(Check::Replicas, finding, "start them, or ask for fewer");
    } else if !late.is_empty() {
        let finding = format!("{}: after a failover to it, locks are gone", late.join(", "));
        report.warning(Check::Replicas, finding, "see why it does not follow");
    } else if connected > 0 && wanted == 0 {
        let count = 1.max(connected / 2);
        let advice = format!(
            "if one of them may become the master, --replicas {count} makes sure that it has the lock, too"
        );
        report.note(
            Check::Replicas,
            format!("{connected}, which get to know of a lock a moment later"),
            advice,
        );
    } else {
        let count = if connected == 0 { "none".to_owned() } else { connected.to_string() };
        report.ok(Check::Replicas, count);
    }
}

/// The fault of a replica, if any, from `ip=…,port=…,state=online,offset=…,lag=0`.
fn lagging(line: &str) -> Option<String> {
    let fields: HashMap<&str, &str> = line.split(',').filter_map(|field| field.split_once('=')).collect();
    let field = |name| fields.get(name).copied();
    let name = format!("{}:{}", field("ip").unwrap_or("?"), field("port").unwrap_or("?"));
    let lag = field("lag").and_then(|lag| lag.parse::<u64>().ok()).unwrap_or(0);
    match field("state") {
        Some("online") | None if lag < LAGGING => None,
        Some("online") | None => Some(format!("the replica {name} is {lag} s behind")),
        Some(state) => Some(format!("the replica {name} is not ready ({state})")),
    }
}
