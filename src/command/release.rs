//! `redlock release`: releases the locks of an owner token.

use std::slice;

use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::lock::{Key, OwnerToken, ReleaseOutcome};
use crate::options::OwnerOptions;
use crate::report::{names, not_held};
use crate::session::release_notice::Notice;
use crate::session::{Context, InheritedLock};

pub fn release(owner: &OwnerOptions, context: &Context) -> anyhow::Result<Outcome> {
    let OwnerOptions { keys, above, token } = owner;
    keys.iter().try_for_each(|key| refuse_in_job(key, token))?;
    keys.iter().for_each(|key| Notice::Releasing.send(key, token));
    let released = context.open_store().release(keys, token, &context.timeout());
    keys.iter().for_each(|key| Notice::Released.send(key, token));
    let released = released.map_err(|error| context.explain(error))?;
    let (released, others): (Vec<_>, Vec<_>) =
        keys.iter().zip(released).partition(|(_, outcome)| *outcome == ReleaseOutcome::Released);
    for (key, _) in released {
        context.reporter.report(&Event::Released { keys: slice::from_ref(key), leftovers: None });
    }
    // Not every lock below them was taken as a part of a tree.
    let others: Vec<_> = others.into_iter().map(|(key, _)| key).filter(|key| !above.contains(key)).collect();
    if others.is_empty() {
        return Ok(Outcome::SUCCESS);
    }
    let names = names(others);
    Err(Failure::new(NOT_HELD, not_held(&names)).into())
}

/// The lock of a running job stays: the job would work on beside the next holder until the next renewal.
fn refuse_in_job(key: &Key, token: &OwnerToken) -> Result<(), Failure> {
    let inherited = InheritedLock::on(key).filter(|lock| lock.is_held_by(token) && lock.is_supervised());
    match inherited {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "this command runs under '{key}': redlock releases the lock when the command ends"
        ))),
    }
}
