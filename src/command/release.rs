use crate::cli::ReleaseArgs;
use crate::error::Outcome;
use crate::error::{Failed, NOT_HELD};
use crate::options::Context;
use crate::report::names;
use crate::session::release_notice::Notice;
use crate::session::token_file;

/// Gives the locks of an owner token back.
pub fn release(args: &ReleaseArgs, context: &Context) -> anyhow::Result<Outcome> {
    let (keys, token) = (token_file::keys(&args.owner)?, token_file::token(&args.owner)?);
    keys.iter().for_each(|key| Notice::Releasing.tell(key, &token));
    let released = context.open_store().release(&keys, &token, &context.patience());
    keys.iter().for_each(|key| Notice::Released.tell(key, &token));
    let released = released.map_err(|error| context.explain(error))?;
    let each = || keys.iter().zip(&released);
    for (key, _) in each().filter(|(_, released)| **released) {
        context.messages.note(format_args!("released '{key}'"));
    }
    let mut not_held = each().filter(|(_, released)| !**released).map(|(key, _)| key).peekable();
    if not_held.peek().is_none() {
        return Ok(Outcome::SUCCESS);
    }
    let names = names(not_held);
    let why = format!("this token does not hold {names}: it was released, expired, or was taken by another");
    Err(Failed { code: NOT_HELD, why }.into())
}
