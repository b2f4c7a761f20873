use std::time::Duration;

use crate::cli::CheckArgs;
use crate::clock::BootTime;
use crate::error::Outcome;
use crate::error::{Failed, NOT_HELD};
use crate::lock::{DurationText, drift_over};
use crate::options::Context;
use crate::session::token_file;

/// Asks whether an owner token holds the locks, for some time to come.
pub fn check(args: &CheckArgs, context: &Context) -> anyhow::Result<Outcome> {
    let (keys, token) = (token_file::keys(&args.owner)?, token_file::token(&args.owner)?);
    let at_least = args.at_least.or(context.config.at_least).map_or(Duration::ZERO, |text| text.0);
    let mut store = context.open_store();
    let failed = |why| Err(Failed { code: NOT_HELD, why }.into());
    let asked = BootTime::now();
    for key in &keys {
        let left = store.check(key, &token, &context.patience()).map_err(|error| context.explain(error))?;
        let Some(left) = left else { return failed(format!("this token does not hold '{key}'")) };
        if left == Duration::MAX {
            context.messages.note(format_args!("'{key}' is held for ever"));
            continue;
        }
        // The store may have looked as early as when it was asked, with a clock that goes faster.
        let left = left.saturating_sub(BootTime::now().since(asked) + drift_over(left));
        if left < at_least {
            return failed(format!(
                "'{key}' is held for {} more, not for {}",
                DurationText(left),
                DurationText(at_least)
            ));
        }
        context.messages.note(format_args!("'{key}' is held for {} more", DurationText(left)));
    }
    Ok(Outcome::SUCCESS)
}
