//! `redlock check`: asks whether an owner token holds the locks, and for how long, or whether jobs ran lately.

use std::time::Duration;

use crate::clock::BootTime;
use crate::error::{Failure, NOT_HELD, NOT_RUN, Outcome};
use crate::event::Event;
use crate::lock::{DurationText, History, Key, drift_over};
use crate::options::OwnerOptions;
use crate::report::{age, names, not_held, result};
use crate::session::{Context, history};

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

/// The last run of each lock that was a success has to have ended so long ago at most.
pub fn ran_within(keys: &[Key], within: Duration, context: &Context) -> anyhow::Result<Outcome> {
    for History { key, runs, skipped } in history::read(keys, context)? {
        if runs.is_empty() && skipped == 0 {
            return Err(Failure::new(NOT_RUN, history::no_history(&[key], context)).into());
        }
        let success = runs.iter().find(|run| run.is_success());
        if success.is_some_and(|run| history::ended_within(run, within)) {
            continue;
        }
        let limit = DurationText(within);
        let last_success = match success {
            Some(run) => format!("the last success ended {} ago", age(run.ended)),
            None => "its history has no successful run".to_owned(),
        };
        let mut reason = format!("no run of '{key}' succeeded within {limit}: {last_success}");
        let last = runs.iter().find(|run| !run.is_start());
        if let Some(last) = last.filter(|run| Some(*run) != success) {
            reason += &format!("; the last run ended {} ago: {}", age(last.ended), result(last));
        }
        return Err(Failure::new(NOT_RUN, reason).into());
    }
    Ok(Outcome::SUCCESS)
}
