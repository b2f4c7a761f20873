//! The servers that have the locks behind Sentinel, or in a cluster. Only here `doctor` finds that out.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use redis::{Cmd, Value};

use super::probe::{Asking, LOGIN_ADVICE, unreachable, wants_login};
use super::server_under_test::ServerUnderTest;
use crate::doctor::{Check, Findings, Requirements};
use crate::store::net::{Endpoint, LONGEST_HOST};
use crate::store::redis::login::Login;
use crate::store::redis::reply::{in_short, items, text};
use crate::store::redis::topology::cluster::{SLOTS, decode_slots};
use crate::store::redis::url::{RedisAddress, ServerAddress};

/// The least number of Sentinels that can lose one and still have a majority.
const ENOUGH: u64 = 3;

/// Masters decide by majority which replica takes the place of one that is lost.
const ENOUGH_MASTERS: usize = 3;

type SlotRanges = Vec<RangeInclusive<u16>>;

/// Whom to ask who has the locks.
pub struct Directory<'a> {
    pub address: &'a RedisAddress,
    pub terms: &'a Requirements,
}

impl Directory<'_> {
    /// Examines the Sentinels, and names the master that they know.
    pub fn master(
        &self,
        sentinels: &[Endpoint],
        master: &str,
        report: &mut Findings,
    ) -> Vec<ServerUnderTest> {
        let mut masters: Vec<(Endpoint, &Endpoint)> = Vec::new();
        for sentinel in sentinels {
            let mut own = Findings::about(format!("sentinel {sentinel}"));
            let found = self.ask_sentinel(sentinel, master, &mut own);
            masters.extend(found.map(|found| (found, sentinel)));
            report.findings.append(&mut own.findings);
        }
        let Some((first, one)) = masters.first() else { return Vec::new() };
        if let Some((second, other)) = masters.iter().find(|(found, _)| found != first) {
            let finding = format!(
                "{one} says that the master is {first}, {other} says {second}: there may be two masters"
            );
            let advice = "wait until a failover has ended; see that the Sentinels reach one another";
            report.bad(Check::Master, finding, advice);
        }
        vec![ServerUnderTest::at(self.one(first), false)]
    }

    fn one(&self, endpoint: &Endpoint) -> RedisAddress {
        RedisAddress { servers: ServerAddress::One(endpoint.clone()), login: self.address.login.clone() }
    }

    fn ask(
        &self,
        login: &Login,
        endpoint: &Endpoint,
        question: &Cmd,
        report: &mut Findings,
    ) -> Option<Value> {
        let asked = Asking::open(login, endpoint, &report.server, self.terms);
        let reply = asked.and_then(|mut asking| asking.ask(question));
        reply.map_err(|error| unreachable(report, &error)).ok()
    }

    fn ask_sentinel(&self, sentinel: &Endpoint, master: &str, report: &mut Findings) -> Option<Endpoint> {
        let question = redis::cmd("SENTINEL").arg("MASTER").arg(master).take();
        let reply = self.ask(&self.address.login.for_sentinels(), sentinel, &question, report)?;
        if wants_login(&reply) {
            let advice = "name the file with its password: --sentinel-password-file";
            report.bad(Check::Login, "this Sentinel wants a password", advice);
            return None;
        }
        if let Value::ServerError(error) = &reply {
            let why = in_short(error.details().unwrap_or_default());
            let advice = format!("check the name, and that this is a Sentinel (SENTINEL MASTER {master})");
            report.bad(Check::Master, format!("it does not know the master '{master}': {why}"), advice);
            return None;
        }
        let fields: Vec<String> = items(reply).iter().map(|item| text(Some(item))).collect();
        let fields: HashMap<&str, &str> =
            fields.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let count = |name| fields.get(name).and_then(|value: &&str| value.parse::<u64>().ok()).unwrap_or(0);
        let port = fields.get("port").and_then(|port| port.parse().ok()).filter(|port| *port > 0);
        let host = fields.get("ip").filter(|host| host.len() <= LONGEST_HOST);
        let (Some(host), Some(port)) = (host, port) else {
            let advice = format!("make sure that this is a Sentinel (SENTINEL MASTER {master})");
            report.bad(Check::Master, "its answer makes no sense", advice);
            return None;
        };
        let master = Endpoint::Tcp { host: (*host).to_owned(), port };
        if fields.get("flags").is_some_and(|flags| flags.contains("_down")) {
            let finding = format!("the master {master} is down, says this Sentinel");
            report.bad(Check::Master, finding, "start the master, or see why it does not answer");
        } else if count("num-slaves") == 0 {
            let finding =
                format!("the master is {master}, which has no replica: when it is lost, nothing takes over");
            report.warning(Check::Master, finding, "start replicas of it");
        } else {
            report.ok(Check::Master, format!("the master is {master}"));
        }
        let (all, quorum) = (count("num-other-sentinels") + 1, count("quorum"));
        if quorum > all || all == 1 {
            let finding = format!(
                "it knows of {all} Sentinels in all, and the quorum is {quorum}: no failover can happen"
            );
            report.bad(
                Check::Sentinels,
                finding,
                "run three Sentinels or more, with a quorum of the majority",
            );
        } else if all < ENOUGH {
            let finding =
                format!("it knows of {all} Sentinels in all: when one is lost, no failover can happen");
            report.warning(Check::Sentinels, finding, "run three Sentinels or more");
        } else {
            report.ok(Check::Sentinels, format!("{all} Sentinels in all, with a quorum of {quorum}"));
        }
        Some(master)
    }

    /// Examines the servers of a cluster that were named, and names its masters with their slots.
    pub fn masters(&self, seeds: &[Endpoint], report: &mut Findings) -> Vec<ServerUnderTest> {
        let mut known = Vec::new();
        for seed in seeds {
            let mut own = Findings::about(self.one(seed).to_string());
            let found = self.ask_seed(seed, &mut own).unwrap_or_default();
            report.findings.append(&mut own.findings);
            if known.is_empty() {
                known = found;
            }
        }
        let covered: usize = known.iter().flat_map(|(_, slots)| slots).map(|range| range.len()).sum();
        if !known.is_empty() && covered < usize::from(SLOTS) {
            let missing = usize::from(SLOTS) - covered;
            let finding = format!("{missing} of {SLOTS} slots have no server: their locks cannot be taken");
            report.bad(Check::Slots, finding, "see CLUSTER INFO, and repair it with redis-cli --cluster fix");
        }
        let server = |(endpoint, slots)| ServerUnderTest {
            slots: Some(slots),
            ..ServerUnderTest::at(self.one(&endpoint), false)
        };
        known.into_iter().map(server).collect()
    }

    fn ask_seed(&self, seed: &Endpoint, report: &mut Findings) -> Option<Vec<(Endpoint, SlotRanges)>> {
        let question = redis::cmd("CLUSTER").arg("SLOTS").take();
        let reply = self.ask(&self.address.login, seed, &question, report)?;
        if wants_login(&reply) {
            report.bad(Check::Login, "it wants a password", LOGIN_ADVICE);
            return None;
        }
        if let Value::ServerError(error) = &reply {
            let why = in_short(error.details().unwrap_or_default());
            let advice = "name servers of a cluster, or use redis://; the user needs +cluster|slots";
            report.bad(Check::Cluster, format!("it does not say who has which slots: {why}"), advice);
            return None;
        }
        let rows = if let Value::Array(rows) = &reply { Some(rows.len()) } else { None };
        let map = decode_slots(reply, seed, &report.server).unwrap_or_default();
        if rows != Some(map.len()) {
            let advice = "make sure that it is a server of a Redis Cluster (CLUSTER SLOTS)";
            report.bad(Check::Cluster, "its answer makes no sense", advice);
            return None;
        }
        let mut masters: BTreeMap<String, (Endpoint, SlotRanges)> = BTreeMap::new();
        for ((first, last), endpoint) in map {
            masters.entry(endpoint.to_string()).or_insert((endpoint, Vec::new())).1.push(first..=last);
        }
        let count = masters.len();
        if count < ENOUGH_MASTERS {
            let finding = format!(
                "it knows {count} masters: when one is lost, the others are not a majority that can replace it"
            );
            report.warning(Check::Cluster, finding, "run three masters or more, with replicas");
        } else {
            report.ok(Check::Cluster, format!("it knows {count} masters"));
        }
        Some(masters.into_values().collect())
    }
}
