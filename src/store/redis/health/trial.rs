//! The life of a lock on one server, and the removal of what it leaves.

use super::probe::Asking;
use super::server::ServerUnderTest;
use crate::doctor::{Findings, Requirements, Trial, judge};
use crate::store::redis::Redis;
use crate::store::redis::net::Result;

/// Of a call that failed, and of an answer that makes no sense.
const ADVICE: [&str; 2] =
    ["see to that first", "is something between redlock and the server (a proxy), or is it no real Redis?"];

/// Tries the scripts that all locks are made of.
pub fn live(
    server: &ServerUnderTest,
    asking: &mut Asking,
    terms: &Requirements,
    report: &mut Findings,
) -> Result<()> {
    let key = server.scratch_key();
    let mut holder = Redis::new(server.address.clone(), terms.replicas);
    let mut waiter = Redis::new(server.address.clone(), terms.replicas);
    let trial = Trial { holder: &mut holder, waiter: &mut waiter, key: &key, attempt: terms.attempt };
    let lived = trial.run();
    let swept = server.sweep(asking, &key);
    judge(&lived, ADVICE, report);
    swept
}
