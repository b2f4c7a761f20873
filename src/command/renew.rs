use std::time::Duration;

use super::Outcome;
use super::context::Context;
use super::failure::{Failed, NOT_HELD};
use super::owner;
use crate::cli::RenewArgs;
use crate::lock::{Kind, Metadata, Renewal, Request};
use crate::output::holder;

/// Extends the leases of an owner token.
pub fn renew(args: &RenewArgs, context: &Context) -> anyhow::Result<Outcome> {
    let (keys, token) = (owner::keys(&args.owner)?, owner::token(&args.owner)?);
    let ttl = context.config.ttl(args.ttl);
    let mut store = context.open_store();
    let mut lost = Vec::new();
    for key in &keys {
        let request = Request {
            key: key.clone(),
            kind: Kind::Exclusive,
            token: token.clone(),
            ttl,
            min_hold: Duration::ZERO,
            replicas: 0,
            metadata: Metadata::default(),
            pids: Vec::new(),
        };
        let renewed = store.renew(&request, None, &context.patience());
        match renewed.map_err(|error| context.explain(error))? {
            Renewal::Extended | Renewal::Healed => {
                context.messages.note(format_args!("renewed '{key}' for {ttl}"));
            }
            Renewal::Lost(Some(now)) => lost.push(format!("'{key}': it is held by {}", holder(&now))),
            Renewal::Lost(None) | Renewal::Released => lost.push(format!("'{key}': nobody holds it")),
        }
    }
    if lost.is_empty() {
        return Ok(Outcome::SUCCESS);
    }
    // The others were renewed.
    let why = format!("this token does not hold {}", lost.join(", nor "));
    Err(Failed { code: NOT_HELD, why }.into())
}
