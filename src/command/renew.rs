use std::time::Duration;

use super::Outcome;
use super::context::Context;
use super::failure::{Failed, NOT_HELD};
use super::owner;
use crate::cli::RenewArgs;
use crate::lock::{Kind, Metadata, Renewal, Request, Ttl};
use crate::output::holder;

/// Extends the leases of an owner token.
pub fn renew(args: &RenewArgs, context: &Context) -> anyhow::Result<Outcome> {
    let token = owner::token(&args.owner)?;
    let ttl = args.ttl.or(context.config.ttl).unwrap_or(Ttl::DEFAULT);
    let mut store = context.open_store();
    for key in &args.owner.keys {
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
            lost @ (Renewal::Lost(_) | Renewal::Released) => {
                let now = if let Renewal::Lost(now) = lost { now } else { None };
                let now =
                    now.map_or("nobody holds it".to_owned(), |now| format!("it is held by {}", holder(&now)));
                let why = format!("this token does not hold '{key}': {now}");
                return Err(Failed { code: NOT_HELD, why }.into());
            }
        }
    }
    Ok(Outcome::SUCCESS)
}
