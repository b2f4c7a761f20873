//! Whether a ZooKeeper is fit to hold locks.

use std::io::{Read, Write};
use std::time::Duration;

use super::client::SessionClient;
use super::error::ZooKeeperResult;
use super::layout::{NodeLayout, ZooKeeperAddress};
use crate::doctor::{Check, Findings, Requirements};
use crate::lock::{DurationText, Timeout};
use crate::sanitize::sanitize;
use crate::store::call_error::CallError;
use crate::store::net::stream::{Stream, TimedStream};
use crate::store::queue::ClusterChecks;

/// The checks of ZooKeeper.
pub const CHECKS: ClusterChecks<NodeLayout> = ClusterChecks {
    advice: [
        "fix that first",
        "is something between redlock and ZooKeeper (a proxy), or is it no ZooKeeper?",
    ],
    examine_server,
    examine_all: |address, report| judge_size(address.cluster.servers.len(), report),
};
/// What a server says about itself is shorter.
const LONGEST: u64 = 64 << 10;

fn judge_size(servers: usize, report: &mut Findings) {
    match servers {
        1 => report.note(
            Check::Size,
            "one server is named",
            "three survive the loss of one; name all of them, so that another is asked when one is gone",
        ),
        even if even.is_multiple_of(2) => report.note(
            Check::Size,
            format!("{even} servers are named"),
            "name all of them; an even number survives no more than one less",
        ),
        odd => report.ok(Check::Size, format!("{odd} servers are named")),
    }
}

fn examine_server(address: ZooKeeperAddress, terms: &Requirements, report: &mut Findings) {
    let timeout = Timeout::of(terms.attempt);
    // As short as it may be.
    let mut client = SessionClient::new(&address, Duration::from_millis(1));
    let shortest = match client.connect(&timeout) {
        Ok(session) => session.timeout,
        Err(error) => {
            refused(error, report);
            return;
        }
    };
    client.dismiss();
    report.ok(Check::Reachable, "it answers, and has a leader");
    judge_sessions(&address, shortest, terms, report);
    match about_itself(&address, &Timeout::of(terms.attempt)) {
        Ok(text) => judge_version(&text, report),
        Err(_) => report.unknown(
            Check::Version,
            "its version cannot be seen",
            "it is in the answer to srvr, if 4lw.commands.whitelist allows that",
        ),
    }
}

fn refused(error: CallError, report: &mut Findings) {
    match error {
        CallError::Denied(why) => report.bad(Check::Login, why, "name another user and password"),
        CallError::NoAnswer { why, .. } | CallError::Unusable(why) => report.bad(
            Check::Reachable,
            why,
            "is ZooKeeper running there with a majority of its servers, and is this its port for clients?",
        ),
        CallError::Expired | CallError::Interrupted => {
            report.bad(Check::Reachable, "it did not grant a session", CHECKS.advice[0]);
        }
    }
}

/// Whether the TTL is within the bounds that the server sets for sessions.
fn judge_sessions(
    address: &ZooKeeperAddress,
    shortest: Duration,
    terms: &Requirements,
    report: &mut Findings,
) {
    let mut client = SessionClient::new(address, Duration::from_millis(i32::MAX as u64));
    let Ok(session) = client.connect(&Timeout::of(terms.attempt)) else { return };
    client.dismiss();
    let (ttl, longest) = (terms.ttl, session.timeout);
    let [from, to] = [shortest, longest].map(DurationText);
    let finding = format!("sessions live for {from} to {to}");
    if ttl.duration() > longest {
        let advice = format!("use --ttl {to} or less, or raise maxSessionTimeout");
        report.bad(Check::Sessions, format!("{finding}, not for --ttl {ttl}"), advice);
    } else if ttl.duration() < shortest {
        let finding = format!("{finding}: after a death the lock stays for {from}, not for --ttl {ttl}");
        report.note(Check::Sessions, finding, "a smaller tickTime, or minSessionTimeout, shortens that");
    } else {
        report.ok(Check::Sessions, finding);
    }
}

/// The answer to "srvr", one of the words that a server understands without a session.
fn about_itself(address: &ZooKeeperAddress, timeout: &Timeout) -> ZooKeeperResult<String> {
    let Some(server) = address.cluster.servers.first() else { return Ok(String::new()) };
    let mut stream = Stream::connect(server, address.cluster.tls(), None, timeout)?;
    let mut timed = TimedStream::new(&mut stream, timeout);
    let mut text = Vec::new();
    let asked = timed.write_all(b"srvr").and_then(|()| timed.flush());
    let read = asked.and_then(|()| (&mut timed).take(LONGEST).read_to_end(&mut text));
    read.map_err(|error| CallError::no_answer(error.to_string()))?;
    Ok(sanitize(&String::from_utf8_lossy(&text).replace('\n', ", ")))
}

fn judge_version(text: &str, report: &mut Findings) {
    let of = |name: &str| {
        let (_, rest) = text.split_once(name)?;
        Some(rest.split([',', '-', ' ']).next().unwrap_or_default().chars().take(40).collect::<String>())
    };
    let Some(version) = of("Zookeeper version: ") else {
        report.unknown(
            Check::Version,
            "its version cannot be seen",
            "allow srvr in 4lw.commands.whitelist of the server",
        );
        return;
    };
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) {
        (0..=2, _) | (3, 0..=4) => {
            report.bad(Check::Version, format!("ZooKeeper {version}"), "redlock needs 3.5 or later");
        }
        _ => report.ok(Check::Version, format!("ZooKeeper {version}")),
    }
    if let Some(role) = of("Mode: ") {
        report.ok(Check::Role, format!("it is {role}"));
    }
}
