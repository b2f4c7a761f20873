//! `redlock release`: releases the locks of an owner token.

use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::options::OwnerOptions;
use crate::report::names;
use crate::session::Context;
use crate::session::release_notice::Notice;

pub fn release(owner: &OwnerOptions, context: &Context) -> anyhow::Result<Outcome> {
    let OwnerOptions { keys, token } = owner;
    keys.iter().for_each(|key| Notice::Releasing.send(key, token));
    let released = context.open_store().release(keys, token, &context.timeout());
    keys.iter().for_each(|key| Notice::Released.send(key, token));
    let released = released.map_err(|error| context.explain(error))?;
    let (released, not_held): (Vec<_>, Vec<_>) =
        keys.iter().zip(released).partition(|(_, released)| *released);
    for (key, _) in released {
        context.reporter.report(&Event::Released { locks: &names([key]), leftovers_of: None });
    }
    if not_held.is_empty() {
        return Ok(Outcome::SUCCESS);
    }
    let names = names(not_held.into_iter().map(|(key, _)| key));
    let reason =
        format!("this token does not hold {names}: it was released, expired, or was taken by another");
    Err(Failure::new(NOT_HELD, reason).into())
}
