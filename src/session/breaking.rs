//! Takes a lock away from its holders, and from nobody else.

use std::slice::from_ref;

use crate::error::Failure;
use crate::job::is_gone;
use crate::lock::{Breaker, Broken, FencingToken, Holder, Key, OwnerToken, StoreAdmin};
use crate::session::Context;
use crate::user::UserAtHost;

/// The grants that the user was asked about.
#[derive(PartialEq, Eq)]
pub struct AskedAbout(Vec<Option<FencingToken>>);

impl AskedAbout {
    /// What other programs hold has no fencing token: one of them is like another.
    pub fn these(holders: &[Holder]) -> AskedAbout {
        AskedAbout(holders.iter().map(|holder| holder.fence).collect())
    }

    /// How many hold the lock beside the first one.
    pub fn others(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// One that came to hold the lock since.
    pub fn newcomer<'a>(&self, holders: &'a [Holder]) -> Option<&'a Holder> {
        holders.iter().find(|holder| !self.0.contains(&holder.fence))
    }
}

/// Breaks a lock in the name of this user: of all its holders, unless one is named by its token. When the user was
/// asked, who came to hold it meanwhile keeps it.
pub fn break_lock(
    store: &mut dyn StoreAdmin,
    key: &Key,
    token: Option<&OwnerToken>,
    asked: Option<&AskedAbout>,
    reason: Option<&str>,
    context: &Context,
) -> Result<Broken, Failure> {
    if let Some(asked) = asked {
        let status = store.status(from_ref(key), &context.timeout());
        let status = status.map_err(|error| context.explain(error))?;
        let holders = status.first().map_or(&[][..], |lock| &lock.holders);
        if let Some(newcomer) = asked.newcomer(holders) {
            return Ok(Broken::Other(newcomer.clone()));
        }
    }
    let identity = UserAtHost::own();
    let by = Breaker::new(&identity.user, &identity.host, reason);
    let mut break_it = || {
        let broken = store.break_lock(key, token, &by, &context.timeout());
        broken.map_err(|error| context.explain(error))
    };
    match break_it()? {
        // Nobody will see that it was broken.
        Broken::Told(holder) if has_gone(&holder, &identity) => break_it(),
        broken => Ok(broken),
    }
}

/// Whether the lock was acquired by hand, for a process of this host that has ended.
fn has_gone(holder: &Holder, own: &UserAtHost) -> bool {
    holder.metadata.as_ref().is_some_and(|one| one.by_hand && one.host == own.host && is_gone(one.pid))
}
