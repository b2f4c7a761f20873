//! `redlock renew`: extends leases by hand.

use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::lock::{Mode, Renewal, Request};
use crate::options::RenewOptions;
use crate::report::{holder, names};
use crate::session::{Context, token_file};

/// Locks that are not lost are renewed although others are.
pub fn renew(options: &RenewOptions, context: &Context) -> anyhow::Result<Outcome> {
    let RenewOptions { owner, ttl } = options;
    let token = token_file::owner_token(&owner.token)?;
    let mut store = context.open_store();
    let mut lost = Vec::new();
    for key in &owner.keys {
        let request = Request::new(key.clone(), Mode::Exclusive, token.clone(), *ttl);
        let renewed = store.renew(&request, None, &context.timeout());
        match renewed.map_err(|error| context.explain(error))? {
            Renewal::Extended | Renewal::Healed => {
                context.reporter.report(&Event::Renewed { locks: &names([key]), ttl: Some(*ttl) });
            }
            Renewal::Lost(Some(now)) => lost.push(format!("'{key}': it is held by {}", holder(&now))),
            Renewal::Lost(None) | Renewal::Released => lost.push(format!("'{key}': nobody holds it")),
        }
    }
    match &lost[..] {
        [] => Ok(Outcome::SUCCESS),
        lost => {
            let reason = format!("this token does not hold {}", lost.join(", nor "));
            Err(Failure::new(NOT_HELD, reason).into())
        }
    }
}
