//! `redlock resize`: changes the number of permits of a lock in use.

use crate::cli::ResizeArgs;
use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::lock::{Resized, StoreError};
use crate::session::Context;

pub fn resize(args: &ResizeArgs, context: &Context) -> anyhow::Result<Outcome> {
    let &ResizeArgs { ref key, permits, .. } = args;
    if let Err(why) = context.options.server.capabilities().counted_permits {
        return Err(Failure::configuration(format!("cannot resize '{key}': {why}")).into());
    }
    let resized = match context.open_store().resize(key, permits, &context.timeout()) {
        Err(StoreError::OtherMode { .. }) => {
            let reason = format!("cannot resize '{key}': it is in use as a lock without permits");
            return Err(Failure::configuration(reason).into());
        }
        other => other,
    };
    match resized.map_err(|error| context.explain(error))? {
        Resized::From(before) => {
            context.reporter.report(&Event::Resized { key, permits, before });
            Ok(Outcome::SUCCESS)
        }
        Resized::NotInUse => {
            let reason =
                format!("'{key}' is not in use; the next run says with --permits how many there are");
            Err(Failure::new(NOT_HELD, reason).into())
        }
    }
}
