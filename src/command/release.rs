use super::Outcome;
use super::context::Context;
use super::failure::{Failed, NOT_HELD};
use super::notice::Notice;
use super::owner;
use crate::cli::ReleaseArgs;
use crate::output::names;

/// Gives the locks of an owner token back.
pub fn release(args: &ReleaseArgs, context: &Context) -> anyhow::Result<Outcome> {
    let token = owner::token(&args.owner)?;
    let mut store = context.open_store();
    let mut not_held = Vec::new();
    // As `run` does it: who waits for the first one finds the others free.
    for key in args.owner.keys.iter().rev() {
        Notice::Releasing.tell(key, &token);
        let released = store.release(key, &token, &context.patience());
        Notice::Released.tell(key, &token);
        if released.map_err(|error| context.explain(error))? {
            context.messages.note(format_args!("released '{key}'"));
        } else {
            not_held.insert(0, key);
        }
    }
    if not_held.is_empty() {
        return Ok(Outcome::SUCCESS);
    }
    let names = names(not_held);
    let why = format!("this token does not hold {names}: it was released, expired, or was taken by another");
    Err(Failed { code: NOT_HELD, why }.into())
}
