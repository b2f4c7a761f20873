use crate::cli::RenewArgs;
use crate::error::Outcome;
use crate::error::{Failed, NOT_HELD};
use crate::lock::{Mode, Renewal, Request};
use crate::options::Context;
use crate::report::holder;
use crate::session::token_file;

/// Extends the leases of an owner token.
pub fn renew(args: &RenewArgs, context: &Context) -> anyhow::Result<Outcome> {
    let (keys, token) = (token_file::keys(&args.owner)?, token_file::token(&args.owner)?);
    let ttl = context.config.ttl(args.ttl);
    let mut store = context.open_store();
    let mut lost = Vec::new();
    for key in &keys {
        let request = Request::new(key.clone(), Mode::Exclusive, token.clone(), ttl);
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
