//! `redlock check`: asks whether an owner token holds the locks, and for how long.

use std::time::Duration;

use crate::clock::BootTime;
use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::lock::{DurationText, drift_over};
use crate::options::OwnerOptions;
use crate::report::{names, not_held};
use crate::session::Context;

/// The leases have to live at least so much longer.
pub fn check(owner: &OwnerOptions, at_least: Duration, context: &Context) -> anyhow::Result<Outcome> {
    let mut store = context.open_store();
    let asked = BootTime::now();
    for key in &owner.keys {
        let left = store.check(key, &owner.token, &context.timeout());
        let left = left.map_err(|error| context.explain(error))?;
        // The store may have looked right after it was asked, and its clock may be faster.
        let left = left.map(|left| match left {
            Duration::MAX => None,
            left => Some(left.saturating_sub(BootTime::now().since(asked) + drift_over(left))),
        });
        let reason = match left {
            None => not_held(&names([key])),
            Some(Some(left)) if left < at_least => {
                let (left, at_least) = (DurationText(left), DurationText(at_least));
                format!("'{key}' is held for {left} more, not for {at_least}")
            }
            Some(left) => {
                context.reporter.report(&Event::Held { key, left });
                continue;
            }
        };
        return Err(Failure::new(NOT_HELD, reason).into());
    }
    Ok(Outcome::SUCCESS)
}
