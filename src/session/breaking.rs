//! Takes a lock away from its holders, and from nobody else.

use std::slice::from_ref;

use crate::error::Failure;
use crate::job::is_gone;
use crate::lock::{BreakScope, Breaker, Broken, FencingToken, Holder, Key, Metadata, OwnerToken, StoreAdmin};
use crate::session::Context;
use crate::user::UserAtHost;

/// The grants that the user was asked about, and whether each had been broken already. Breaking a lock again frees it while
/// its job may still run, so the user must have been asked about that.
#[derive(PartialEq, Eq)]
pub struct AskedAbout(Vec<(Option<FencingToken>, bool)>);

impl AskedAbout {
    pub fn these(holders: &[Holder]) -> AskedAbout {
        AskedAbout(holders.iter().map(grant).collect())
    }

    /// The number of holders beside the first one.
    pub fn others(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// One that came to hold the lock since, or was broken since.
    pub fn change<'a>(&self, holders: &'a [Holder]) -> Option<&'a Holder> {
        holders.iter().find(|holder| !self.0.contains(&grant(holder)))
    }
}

/// A holder of another program has no fencing token: one of them is like another.
fn grant(holder: &Holder) -> (Option<FencingToken>, bool) {
    (holder.fence, holder.broken.is_some())
}

/// Breaks a lock in the name of this user: of all its holders, unless one is named by its token. Where the user was asked
/// about it, a look before it has to show the same holders.
pub fn break_lock(
    store: &mut dyn StoreAdmin,
    key: &Key,
    token: Option<&OwnerToken>,
    asked: Option<&AskedAbout>,
    reason: Option<&str>,
    context: &Context,
) -> Result<Broken, Failure> {
    if let Some(asked) = asked
        && let Some(change) = asked.change(&holders(store, key, context)?)
    {
        return Ok(Broken::Other(change.clone()));
    }
    let identity = UserAtHost::own();
    let by = Breaker::new(&identity.user, &identity.host, reason);
    let scope = &BreakScope::of(token);
    match break_once(store, key, scope, &by, context)? {
        // Nobody will see that it was broken. A second time frees it from all who were told: if one of them lives, its job
        // needs the time to stop.
        Broken::Told(told)
            if has_gone(&told, &identity)
                && (token.is_some() || all_have_gone(store, key, &identity, context)) =>
        {
            break_once(store, key, scope, &by, context)
        }
        broken => Ok(broken),
    }
}

fn all_have_gone(store: &mut dyn StoreAdmin, key: &Key, own: &UserAtHost, context: &Context) -> bool {
    let holders = holders(store, key, context).unwrap_or_default();
    !holders.is_empty() && holders.iter().all(|holder| has_gone(holder, own))
}

fn break_once(
    store: &mut dyn StoreAdmin,
    key: &Key,
    scope: &BreakScope,
    by: &Breaker,
    context: &Context,
) -> Result<Broken, Failure> {
    store.break_lock(key, scope, by, &context.timeout()).map_err(|error| {
        let is_unknown = error.is_unknown();
        match context.explain(error) {
            Failure::Failed { code, reason, .. } if is_unknown => {
                Failure::new(code, format!("{reason}; whether '{key}' was broken is unknown"))
            }
            other => other,
        }
    })
}

fn holders(store: &mut dyn StoreAdmin, key: &Key, context: &Context) -> Result<Vec<Holder>, Failure> {
    let status = store.status(from_ref(key), &context.timeout());
    let status = status.map_err(|error| context.explain(error))?;
    Ok(status.into_iter().next().map_or(Vec::new(), |lock| lock.holders))
}

/// True if the lock was acquired by hand, for a process of this host that has ended.
fn has_gone(holder: &Holder, own: &UserAtHost) -> bool {
    let is_over = |one: &Metadata| one.by_hand && one.host == own.host && is_gone(one.pid, one.pid_namespace);
    holder.metadata.as_ref().is_some_and(is_over)
}
