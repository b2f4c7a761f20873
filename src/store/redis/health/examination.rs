//! All checks of one server.

use super::info::Facts;
use super::latency::Clock;
use super::probe::{Asking, unreachable};
use super::server_under_test::ServerUnderTest;
use super::{durability, latency, permissions};
use crate::doctor::{Check, Findings, Requirements, Trial, judge};
use crate::lock::Result;
use crate::store::redis::store::Redis;

pub struct Examined {
    pub report: Findings,
    pub clock: Option<Clock>,
    /// The id of the running server: two that have the same one are the same.
    pub run_id: Option<String>,
    pub is_reached: bool,
}

/// The oldest that has all that the scripts need.
const OLDEST: (u32, u32) = (6, 2);

impl ServerUnderTest {
    /// Looks at everything and tries everything; what goes wrong is a finding, never an error.
    pub fn examine(&self, terms: &Requirements) -> Examined {
        let report = Findings::about(self.address.to_string());
        let mut examined = Examined { report, clock: None, run_id: None, is_reached: false };
        let looked = self.open(terms).and_then(|mut asking| self.look(&mut asking, terms, &mut examined));
        if let Err(error) = looked {
            examined.is_reached = false;
            unreachable(&mut examined.report, &error);
        }
        examined
    }

    fn look(&self, asking: &mut Asking, terms: &Requirements, examined: &mut Examined) -> Result<()> {
        let report = &mut examined.report;
        let Some(round_trip) = latency::round_trip(asking, report)? else { return Ok(()) };
        examined.is_reached = true;
        asking.judge_encryption(report);
        let facts = Facts::ask(asking)?;
        version(&facts, report);
        let is_master = role(&facts, report);
        if is_master && permissions::try_all(self, asking, terms, report)? {
            self.try_lock(asking, terms, report)?;
        }
        durability::eviction(&facts, report);
        durability::restart(&facts, terms, self.is_in_quorum, report);
        if is_master {
            durability::replicas(&facts, terms, self.is_in_quorum, report);
        }
        examined.clock = latency::clock(asking, report)?;
        terms.judge_ttl(round_trip, report);
        examined.run_id = facts.info("run_id").map(str::to_owned);
        Ok(())
    }

    /// Tries the scripts that all locks are made of, and removes what they leave.
    fn try_lock(&self, asking: &mut Asking, terms: &Requirements, report: &mut Findings) -> Result<()> {
        let key = self.scratch_key();
        let [mut holder, mut waiter] = [(); 2].map(|()| Redis::new(self.address.clone(), terms.replicas));
        let trial = Trial { holder: &mut holder, waiter: &mut waiter, key: &key, attempt: terms.attempt };
        let lived = trial.run();
        let swept = self.sweep(asking, &key);
        // For a call that failed, and for an answer that makes no sense.
        let senseless = "is something between redlock and the server (a proxy), or is it no real Redis?";
        judge(&lived, ["fix that first", senseless], report);
        swept
    }
}

fn version(facts: &Facts, report: &mut Findings) {
    let Some(version) = facts.info("redis_version") else {
        let advice = "make sure that it is Redis 6.2 or later, or Valkey";
        return facts.unseen(report, Check::Version, "could not see the version", advice);
    };
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let valkey = facts.info("valkey_version").map(|version| format!("Valkey {version}"));
    let name = valkey.unwrap_or_else(|| format!("Redis {version}"));
    if found < OLDEST {
        let finding = format!("{name} lacks commands that redlock needs");
        report.bad(Check::Version, finding, "use Redis 6.2 or later, or Valkey");
    } else {
        report.ok(Check::Version, name);
    }
}

/// The server is a master, as far as can be seen.
fn role(facts: &Facts, report: &mut Findings) -> bool {
    let role = facts.info("role");
    match role {
        Some("master") => report.ok(Check::Role, "a master"),
        Some("slave") => {
            let host = facts.info("master_host").unwrap_or("its master");
            let port = facts.info("master_port").unwrap_or("?");
            let finding = "it is a replica: writes to it are discarded";
            report.bad(Check::Role, finding, format!("name its master, {host}:{port}, instead"));
        }
        _ => {
            let advice = "make sure that it is not a replica";
            facts.unseen(report, Check::Role, "could not see whether it is a master", advice);
        }
    }
    role != Some("slave")
}
