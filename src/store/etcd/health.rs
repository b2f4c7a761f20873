//! Whether an etcd is fit to hold locks.

use super::ledger::EtcdLedger;
use super::members::EtcdMembers;
use super::store::Etcd;
use super::url::EtcdAddress;
use crate::doctor::{Check, Finding, Findings, Requirements, Trial, judge};
use crate::lock::{Key, StoreError, Timeout};
use crate::store::call_error::CallError;

/// Of a call that failed, and of an answer that makes no sense.
const ADVICE: [&str; 2] =
    ["fix that first", "is something between redlock and etcd (a proxy), or is it no etcd?"];

/// Examines each member, and the life of a lock.
pub fn examine(address: &EtcdAddress, terms: &Requirements) -> Vec<Finding> {
    let mut findings = Vec::new();
    for members in address.members.each() {
        let one = EtcdAddress { members, layout: address.layout.clone() };
        findings.extend(examine_member(one, terms).findings);
    }
    let mut report = Findings::about(address.to_string());
    let (mut holder, mut waiter) = (Etcd::new(address.clone()), Etcd::new(address.clone()));
    let key = Key::scratch();
    let trial = Trial { holder: &mut holder, waiter: &mut waiter, key: &key, attempt: terms.attempt };
    let lived = trial.run();
    judge(&lived, ADVICE, &mut report);
    if let Ok(measured) = &lived {
        terms.judge_ttl(measured.round_trip, &mut report);
    }
    findings.extend(report.findings);
    findings
}

fn examine_member(address: EtcdAddress, terms: &Requirements) -> Findings {
    let mut report = Findings::about(address.to_string());
    if address.members.is_encrypted {
        report.ok(Check::Encryption, "the connection is encrypted");
    } else {
        report.note(Check::Encryption, "the connection is in plain", "use etcds:// where others can listen");
    }
    let mut ledger = EtcdLedger { layout: address.layout.clone(), members: EtcdMembers::new(address) };
    let timeout = Timeout::of(terms.attempt);
    let asked = ledger.members.call(&timeout, |client| async move {
        let members = client.members().await;
        Ok((client.status().await, members))
    });
    let (status, members) = match asked {
        Ok(answers) => answers,
        Err(StoreError::Denied { why, .. }) => {
            report.bad(Check::Login, why, "name a user that etcd knows: --user and --password-file");
            return report;
        }
        Err(StoreError::Unreachable { why, .. } | StoreError::Unusable { why, .. }) => {
            report.bad(Check::Reachable, why, "is etcd running there, and is this its port for clients?");
            return report;
        }
        Err(error) => {
            report.bad(Check::Reachable, error.to_string(), ADVICE[0]);
            return report;
        }
    };
    report.ok(Check::Reachable, "it answers");
    match status.map_err(CallError::from) {
        Ok(status) => {
            judge_version(&status.version, &mut report);
            if status.leader == 0 {
                report.bad(Check::Majority, "it has no leader", "see that a majority of the members runs");
            }
            for alarm in status.errors {
                let alarm = crate::sanitize::sanitize(&alarm.chars().take(200).collect::<String>());
                report.bad(Check::Space, format!("it raised an alarm: {alarm}"), "see 'etcdctl alarm list'");
            }
        }
        Err(_) => report.unknown(Check::Version, "its version cannot be seen", "ask a user who may see it"),
    }
    match members {
        Ok(1) => report.note(Check::Size, "it is the only member", "three members survive the loss of one"),
        Ok(count) if count % 2 == 0 => {
            report.warning(
                Check::Size,
                format!("it has {count} members"),
                "an even number survives no more than one less",
            );
        }
        Ok(count) => report.ok(Check::Size, format!("it has {count} members")),
        Err(_) => report.unknown(Check::Size, "its members cannot be seen", "ask a user who may see them"),
    }
    report
}

/// Before these versions a leader that had stalled could end a lease that another one had extended: etcd issue 15247.
fn judge_version(version: &str, report: &mut Findings) {
    let version = crate::sanitize::sanitize(&version.chars().take(40).collect::<String>());
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let number = (next(), next(), next());
    match number {
        (0..=2, ..) | (3, 0..=3, _) => {
            report.bad(Check::Version, format!("etcd {version}"), "redlock needs etcd 3.4 or later");
        }
        (3, 4, 0..=30) | (3, 5, 0..=12) => report.warning(
            Check::Version,
            format!(
                "etcd {version}: a leader that stalls may end leases that were renewed (etcd issue 15247)"
            ),
            "use 3.4.31, 3.5.13 or later",
        ),
        _ => report.ok(Check::Version, format!("etcd {version}")),
    }
}
