//! Whether an etcd is fit to hold locks.

use super::calls::EtcdCalls;
use super::layout::{EtcdAddress, KeyLayout};
use super::members::EtcdMembers;
use crate::doctor::{Check, Findings, Requirements};
use crate::lock::{StoreError, Timeout};
use crate::store::call_error::CallError;
use crate::store::queue::ClusterChecks;

/// The checks of etcd.
pub const CHECKS: ClusterChecks<KeyLayout> = ClusterChecks {
    advice: ["fix that first", "is something between redlock and etcd (a proxy), or is it no etcd?"],
    examine_server: examine_member,
    examine_all: |_, _| {},
};

fn examine_member(address: EtcdAddress, terms: &Requirements, report: &mut Findings) {
    let mut calls = EtcdCalls { layout: address.layout.clone(), members: EtcdMembers::new(address) };
    let timeout = Timeout::of(terms.attempt);
    let asked = calls.members.call(&timeout, |client| async move {
        let members = client.members().await;
        Ok((client.status().await, members))
    });
    let (status, members) = match asked {
        Ok(answers) => answers,
        Err(StoreError::Denied { why, .. }) => {
            report.bad(Check::Login, why, "name a user that etcd knows: --user and --password-file");
            return;
        }
        Err(StoreError::Unreachable { why, .. } | StoreError::Unusable { why, .. }) => {
            report.bad(Check::Reachable, why, "is etcd running there, and is this its port for clients?");
            return;
        }
        Err(error) => {
            report.bad(Check::Reachable, error.to_string(), CHECKS.advice[0]);
            return;
        }
    };
    report.ok(Check::Reachable, "it answers");
    match status.map_err(CallError::from) {
        Ok(status) => {
            judge_version(&status.version, report);
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
