use crate::cli::DoctorArgs;
use crate::doctor::{Level, Requirements};
use crate::error::Outcome;
use crate::error::{self, NOT_FIT};
use crate::options::Context;

use crate::report::{findings, findings_json, print};

/// Says whether the store is fit to hold locks, and what to change.
pub fn doctor(args: &DoctorArgs, context: &Context) -> anyhow::Result<Outcome> {
    let config = &context.config;
    let ttl = config.ttl(args.ttl);
    let terms = Requirements {
        ttl,
        kill_after: config.kill_after(args.kill_after, ttl),
        replicas: config.replicas(args.replicas),
        attempt: context.attempt,
    };
    let mut found = context.examine_store(&terms);
    let is_fit = found.iter().all(|finding| finding.level != Level::Bad);
    let text = if args.json {
        findings_json(&found)
    } else {
        found.retain(|finding| !context.messages.quiet || finding.level == Level::Bad);
        findings(&found, context.colour())
    };
    print(text.as_bytes()).map_err(|error| error::of_printing(&error))?;
    Ok(if is_fit { Outcome::SUCCESS } else { Outcome::Exit(NOT_FIT) })
}
