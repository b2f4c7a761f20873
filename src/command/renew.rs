//! `redlock renew`: extends leases by hand.

use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::lock::{Mode, Renewal, Request, Ttl};
use crate::options::OwnerOptions;
use crate::report::{holder, not_held};
use crate::session::Context;

/// Locks that are not lost are renewed although others are.
pub fn renew(owner: &OwnerOptions, ttl: Ttl, context: &Context) -> anyhow::Result<Outcome> {
    let mut store = context.open_store();
    let mut lost = Vec::new();
    for key in &owner.keys {
        let request = Request::new(key.clone(), Mode::Exclusive, owner.token.clone(), ttl);
        let renewed = store.renew(&request, None, &context.timeout());
        match renewed.map_err(|error| context.explain(error))? {
            Renewal::Extended | Renewal::Healed => {
                context.reporter.report(&Event::RenewedByHand { key, ttl });
            }
            Renewal::Lost(Some(now)) => lost.push(format!("'{key}', which is held by {}", holder(&now))),
            Renewal::Lost(None) | Renewal::Released => lost.push(format!("'{key}', which nobody holds")),
        }
    }
    if lost.is_empty() {
        return Ok(Outcome::SUCCESS);
    }
    Err(Failure::new(NOT_HELD, not_held(&lost.join(", nor "))).into())
}
