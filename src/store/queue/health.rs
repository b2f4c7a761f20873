//! Whether a cluster is fit to hold locks.

use std::fmt;

use super::{ClusterAddress, ClusterKind};
use crate::doctor::{Check, Finding, Findings, Requirements, Trial, judge};
use crate::lock::Key;

/// What only one kind of cluster can say about itself.
pub struct ClusterChecks<K> {
    /// The advice after a call that failed, and after an answer that makes no sense.
    pub advice: [&'static str; 2],
    pub examine_server: fn(ClusterAddress<K>, &Requirements, &mut Findings),
    pub examine_all: fn(&ClusterAddress<K>, &mut Findings),
}

/// Examines each server, and the life of a lock.
pub fn examine<K: ClusterKind + fmt::Display>(
    address: &ClusterAddress<K>,
    checks: &ClusterChecks<K>,
    terms: &Requirements,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for server in address.each() {
        let mut report = Findings::about(server.to_string());
        if server.cluster.is_encrypted {
            report.ok(Check::Encryption, "the connection is encrypted");
        } else {
            let advice = format!("use {}s:// where others can listen", K::SCHEME);
            report.note(Check::Encryption, "the connection is in plain", advice);
        }
        (checks.examine_server)(server, terms, &mut report);
        findings.extend(report.findings);
    }
    let mut report = Findings::about(address.to_string());
    (checks.examine_all)(address, &mut report);
    let [mut holder, mut waiter] = [(); 2].map(|()| K::open(address.clone()));
    let (holder, waiter, key) = (holder.as_mut(), waiter.as_mut(), Key::scratch());
    let lived = Trial { holder, waiter, key: &key, attempt: terms.attempt }.run();
    judge(&lived, checks.advice, &mut report);
    if let Ok(measured) = &lived {
        terms.judge_ttl(measured.round_trip, &mut report);
    }
    findings.extend(report.findings);
    findings
}
