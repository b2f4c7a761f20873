use std::time::Duration;

use super::Outcome;
use super::context::Context;
use super::failure::{Failed, NOT_HELD};
use super::owner;
use crate::cli::RenewArgs;
use crate::lock::{Kind, Metadata, Renewal, Request, Ttl};
use crate::output::holder;

/// Extends the lease of an owner token.
pub fn renew(args: &RenewArgs, context: &Context) -> anyhow::Result<Outcome> {
    let token = owner::token(&args.owner)?;
    let ttl = args.ttl.or(context.config.ttl).unwrap_or(Ttl::DEFAULT);
    let key = args.owner.key.clone();
    let request = Request {
        key,
        kind: Kind::Exclusive,
        token,
        ttl,
        min_hold: Duration::ZERO,
        metadata: Metadata::default(),
        pids: Vec::new(),
    };
    let renewed = context.open_store().renew(&request, None, &context.patience());
    match renewed.map_err(|error| context.explain(error))? {
        Renewal::Extended | Renewal::Healed => {
            context.messages.note(format_args!("renewed '{}' for {ttl}", request.key));
            Ok(Outcome::SUCCESS)
        }
        lost @ (Renewal::Lost(_) | Renewal::Released) => {
            let now = if let Renewal::Lost(now) = lost { now } else { None };
            let now =
                now.map_or("nobody holds it".to_owned(), |now| format!("it is held by {}", holder(&now)));
            Err(Failed { code: NOT_HELD, why: format!("this token does not hold '{}': {now}", request.key) }
                .into())
        }
    }
}
