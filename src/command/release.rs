use super::Outcome;
use super::context::Context;
use super::failure::{Failed, NOT_HELD};
use super::notice::Notice;
use super::owner;
use crate::cli::ReleaseArgs;

/// Gives the lock of an owner token back.
pub fn release(args: &ReleaseArgs, context: &Context) -> anyhow::Result<Outcome> {
    let key = &args.owner.key;
    let token = owner::token(&args.owner)?;
    Notice::Releasing.tell(key, &token);
    let released = context.open_store().release(key, &token, &context.patience());
    Notice::Released.tell(key, &token);
    if released.map_err(|error| context.explain(error))? {
        context.messages.note(format_args!("released '{key}'"));
        return Ok(Outcome::SUCCESS);
    }
    let why = format!("this token does not hold '{key}': it was released, expired, or was taken by another");
    Err(Failed { code: NOT_HELD, why }.into())
}
