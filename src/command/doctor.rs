//! `redlock doctor`: says whether the store is fit to hold locks, and what to change.

use std::io::{IsTerminal, stdout};

use crate::cli::DoctorArgs;
use crate::doctor::{Level, Requirements};
use crate::error::{Failure, NOT_FIT, Outcome};
use crate::report::{Verbosity, columns, findings, findings_json, print, report};
use crate::session::Context;

pub fn doctor(args: &DoctorArgs, requirements: &Requirements, context: &Context) -> anyhow::Result<Outcome> {
    let server = &context.options.server;
    if args.sql {
        let script = server.setup_script().ok_or_else(|| {
            Failure::usage(format!("--sql: {server} needs no schema"))
                .hint("name a PostgreSQL database with --server")
        })?;
        print(script.as_bytes()).map_err(Failure::not_printed)?;
        return Ok(Outcome::SUCCESS);
    }
    if args.setup {
        let made = server.set_up(&context.options.credentials, &context.timeout());
        made.map_err(|why| Failure::configuration(format!("--setup: {why}")))?;
    }
    if let Some(group) = &args.share {
        let shared = server.share(group, &context.timeout());
        shared.map_err(|why| Failure::configuration(format!("--share {group}: {why}")))?;
    }
    let mut found = context.examine_store(requirements);
    let is_fit = found.iter().all(|finding| finding.level != Level::Bad);
    let text = match context.options.report.verbosity {
        _ if args.json => findings_json(&found),
        Verbosity::Quiet => {
            found.retain(|finding| finding.level == Level::Bad);
            findings(&found, context.colour())
        }
        verbosity if stdout().is_terminal() => {
            report(&found, context.colour(), columns(stdout()), verbosity == Verbosity::Verbose)
        }
        _ => findings(&found, context.colour()),
    };
    print(text.as_bytes()).map_err(Failure::not_printed)?;
    Ok(if is_fit { Outcome::SUCCESS } else { Outcome::Exit(NOT_FIT) })
}
