//! The checks of Redis servers: are they fit to hold locks?

mod directory;
mod durability;
mod examination;
mod info;
mod latency;
mod permissions;
mod probe;
mod quorum;
mod server_under_test;

use std::thread;

use self::directory::Directory;
use self::examination::Examined;
use self::server_under_test::ServerUnderTest;
use super::url::{RedisAddress, ServerAddress};
use crate::doctor::{Finding, Findings, Requirements};

/// Examines one address, or the members of a quorum. A server that cannot be reached is a finding.
pub fn examine(addresses: Vec<RedisAddress>, terms: &Requirements) -> Vec<Finding> {
    let is_quorum = addresses.len() > 1;
    let mut findings = Vec::new();
    let mut servers = Vec::new();
    for address in addresses {
        let mut report = Findings::about(address.to_string());
        let directory = Directory { address: &address, terms };
        servers.extend(match &address.servers {
            ServerAddress::One(_) => vec![ServerUnderTest::at(address.clone(), is_quorum)],
            ServerAddress::Sentinel { sentinels, master } => directory.master(sentinels, master, &mut report),
            ServerAddress::Cluster(seeds) => directory.masters(seeds, &mut report),
        });
        findings.extend(report.findings);
    }
    let examined = at_once(&servers, terms);
    findings.extend(examined.iter().flat_map(|one| one.report.findings.iter().cloned()));
    if is_quorum {
        findings.extend(quorum::compare(&examined));
    }
    findings
}

/// One that does not answer is not to keep the others waiting.
fn at_once(servers: &[ServerUnderTest], terms: &Requirements) -> Vec<Examined> {
    thread::scope(|scope| {
        let builder = || thread::Builder::new().name("doctor".to_owned());
        let start = |server| builder().spawn_scoped(scope, move || ServerUnderTest::examine(server, terms));
        let threads: Vec<_> = servers.iter().map(start).collect();
        let results = threads.into_iter().zip(servers).map(|(thread, server)| {
            // Without another thread, here.
            thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| server.examine(terms))
        });
        results.collect()
    })
}
