//! `redlock doctor`: says whether the store is fit to hold locks, and what to change.

use crate::cli::DoctorArgs;
use crate::doctor::{Level, Requirements};
use crate::error::{Failure, NOT_FIT, Outcome};
use crate::report::{Verbosity, findings, findings_json, print};
use crate::session::Context;

pub fn doctor(args: &DoctorArgs, requirements: &Requirements, context: &Context) -> anyhow::Result<Outcome> {
    if let Some(group) = &args.share {
        let shared = context.options.server.share(group, &context.timeout());
        shared.map_err(|why| Failure::configuration(format!("--share {group}: {why}")))?;
    }
    let mut found = context.examine_store(requirements);
    let is_fit = found.iter().all(|finding| finding.level != Level::Bad);
    let text = if args.json {
        findings_json(&found)
    } else {
        let is_quiet = context.options.report.verbosity == Verbosity::Quiet;
        found.retain(|finding| !is_quiet || finding.level == Level::Bad);
        findings(&found, context.colour())
    };
    print(text.as_bytes()).map_err(Failure::not_printed)?;
    Ok(if is_fit { Outcome::SUCCESS } else { Outcome::Exit(NOT_FIT) })
}
