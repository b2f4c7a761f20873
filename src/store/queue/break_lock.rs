//! The breaking of a lock, whatever its entries are.

use crate::lock::{Broken, FencingToken, Holder};

/// Ends the entries that hold a lock, or the own one of a token; or tells the owner of a `grant`, and nobody else. `look` says who has an entry, and whether its owner can be
/// told to stop. `end` tells it, or removes its entry; `false` when it was gone.
///
/// Another program cannot be told, and a holder that was told before had the time to stop.
pub fn break_lock<C, E, Error>(
    calls: &mut C,
    mut held: Vec<E>,
    is_own: Option<impl Fn(&E) -> bool>,
    grant: Option<FencingToken>,
    look: impl Fn(&mut C, &E) -> Result<(Holder, bool), Error>,
    end: impl Fn(&mut C, &E, bool) -> Result<bool, Error>,
) -> Result<Broken, Error> {
    if let Some(is_own) = is_own {
        match held.iter().position(is_own) {
            Some(own) => held = vec![held.swap_remove(own)],
            None => {
                let first = held.first().map(|first| look(calls, first)).transpose()?;
                return Ok(first.map_or(Broken::Free, |(holder, _)| Broken::Other(holder)));
            }
        }
    }
    let (mut told, mut freed, mut other) = (None, None, None);
    for entry in &held {
        let (holder, can_be_told) = look(calls, entry)?;
        if grant.is_some_and(|fence| !can_be_told || holder.fence != Some(fence)) {
            other.get_or_insert(holder);
        } else if end(calls, entry, can_be_told)? {
            let ended = if can_be_told { &mut told } else { &mut freed };
            ended.get_or_insert(holder);
        }
    }
    Ok(match (told, freed) {
        (Some(holder), _) => Broken::Told(holder),
        (None, Some(holder)) => Broken::Freed(holder),
        (None, None) => other.map_or(Broken::Free, Broken::Other),
    })
}
