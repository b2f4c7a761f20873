//! The locks that a job finds in its environment, and what it adds for its command.

use std::env;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use super::Context;
use crate::clock::BootTime;
use crate::error::Failure;
use crate::job::{is_below, own_pid_namespace};
use crate::lock::{
    FencingToken, Key, Lease, Mode, OwnerToken, Permits, Renewal, Request, StoreAdmin, Timeout,
};
use crate::report::acquired::{FENCE, KEY, PERMIT, TOKEN, lines, permits};

/// All inherited locks as JSON; [`KEY`], [`TOKEN`] and [`FENCE`] have the innermost ones.
pub const OUTER: &str = "REDLOCK_OUTER";

/// A lock that the environment says is held. The store knows whether it still is.
#[derive(Clone, Serialize, Deserialize)]
pub struct InheritedLock {
    key: String,
    token: String,
    fence: u64,
    #[serde(default, skip_serializing_if = "Permits::is_empty")]
    permits: Permits,
    /// The number of permits of the semaphore when it was granted; `redlock resize` may have changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity: Option<u32>,
    /// The guard of the `redlock run` that holds and renews it; `None` when it was acquired by hand.
    guard: Option<u32>,
    /// The namespace in which the guard has its pid: a process elsewhere may have the same one.
    pid_namespace: Option<u64>,
}

impl InheritedLock {
    /// The innermost one on `key`.
    pub fn on(key: &Key) -> Option<InheritedLock> {
        all().into_iter().rfind(|lock| lock.key == key.as_str())
    }

    pub fn is_held_by(&self, token: &OwnerToken) -> bool {
        self.token == token.expose()
    }

    /// A `redlock run` holds it, and this process belongs to its job, so it ends with the lease.
    pub fn is_supervised(&self) -> bool {
        self.guard.is_some_and(|guard| self.pid_namespace == own_pid_namespace() && is_below(guard))
    }

    /// Its lease, if the store confirms it.
    pub fn lease(
        &self,
        request: &Request,
        store: &mut dyn StoreAdmin,
        interrupt: BorrowedFd,
        context: &Context,
    ) -> anyhow::Result<Option<Lease>> {
        let Ok(token) = self.token.parse() else { return Ok(None) };
        let (wanted, has) = (request.metadata.weight() as usize, self.permits.numbers().len().max(1));
        let request = Request { token, ..request.clone() }.with_permits(self.permits.clone());
        let sent = BootTime::now();
        let timeout = Timeout::or_interrupt(context.options.connect_timeout, interrupt);
        let held = if self.is_supervised() {
            store.check(&request.key, &request.token, &timeout).map(|left| left.is_some())
        } else {
            // From here on this process renews it while its job runs.
            store.renew(&request, None, &timeout).map(|renewal| matches!(renewal, Renewal::Extended))
        };
        if !held.map_err(|error| context.explain(error))? {
            return Ok(None);
        }
        let status = store.status(std::slice::from_ref(&request.key), &timeout);
        let status = status.map_err(|error| context.explain(error))?;
        if let Some(status) = status.first().filter(|status| !self.covers(status.mode, request.mode)) {
            let reason = format!(
                "an enclosing job holds '{}' as {}, so this one would wait for it forever; ask for the same kind in both",
                request.key, status.mode
            );
            return Err(Failure::configuration(reason).into());
        }
        if wanted > has {
            let reason = format!(
                "an enclosing job holds {has} of the permits of '{}', and --take {wanted} is more; take as many in both",
                request.key
            );
            return Err(Failure::configuration(reason).into());
        }
        Ok(Some(Lease::borrowed(request, FencingToken(self.fence), sent)))
    }

    /// The mode of the lock `now` gives a nested request all that it wants.
    fn covers(&self, now: Mode, wanted: Mode) -> bool {
        let was_resized =
            now.permits().is_some() && self.capacity.is_some() && self.capacity == wanted.permits();
        now.covers(wanted) || was_resized
    }
}

/// The locks that [`OUTER`] names. Somebody else may have written it, so it may name none.
fn outer_locks(text: &str) -> Vec<InheritedLock> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Reads what may be the value of [`OUTER`].
#[cfg(any(test, fuzzing))]
pub fn read_outer(text: &str) {
    let locks = outer_locks(text);
    locks.iter().for_each(|lock| {
        _ = (lock.is_supervised(), lock.key.parse::<Key>(), lock.token.parse::<OwnerToken>())
    });
}

/// The inherited locks, from the outermost to the innermost.
fn all() -> Vec<InheritedLock> {
    let mut all = env::var(OUTER).map_or(Vec::new(), |outer| outer_locks(&outer));
    if let (Ok(keys), Ok(token)) = (env::var(KEY), env::var(TOKEN))
        && !all.iter().any(|known| known.token == token)
    {
        // From the `export` line of `redlock acquire`.
        let fences = env::var(FENCE).unwrap_or_default();
        let mut fences = fences.lines().map(|fence| fence.parse().unwrap_or(0));
        let numbers = env::var(PERMIT).unwrap_or_default();
        let mut numbers = numbers.lines().map(|numbers| numbers.parse().unwrap_or_default());
        all.extend(keys.lines().map(|key| {
            let (fence, permits) = (fences.next().unwrap_or(0), numbers.next().unwrap_or_default());
            let (key, token) = (key.to_owned(), token.clone());
            InheritedLock { key, token, fence, permits, capacity: None, guard: None, pid_namespace: None }
        }));
    }
    all
}

/// The additions to the environment of a command under this guard and these `leases`. [`KEY`], [`TOKEN`]
/// and [`FENCE`] name the locks that were acquired last.
pub fn environment(leases: &[Lease], guard: u32) -> Vec<(String, String)> {
    let (mut all, pid_namespace) = (all(), own_pid_namespace());
    for lease in leases {
        let (key, token) = (lease.request.key.to_string(), lease.request.token.expose().to_owned());
        let known = all.iter().position(|known| known.token == token && known.key == key);
        let known = known.map(|index| all.remove(index)).filter(InheritedLock::is_supervised);
        let guard = known.and_then(|known| known.guard).or(Some(guard));
        all.push(InheritedLock {
            key,
            token,
            fence: lease.fence.0,
            permits: lease.permits().clone(),
            capacity: lease.request.mode.permits(),
            guard,
            pid_namespace,
        });
    }
    let mut variables = vec![(OUTER.to_owned(), serde_json::to_string(&all).unwrap_or_default())];
    if let Some(token) = leases.last().map(|lease| lease.request.token.expose()) {
        let innermost = || leases.iter().filter(|lease| lease.request.token.expose() == token);
        variables.push((KEY.to_owned(), lines(innermost().map(|lease| &lease.request.key))));
        variables.push((TOKEN.to_owned(), token.to_owned()));
        // The fencing token of a lock acquired by hand is unknown if the environment does not have it.
        if innermost().all(|lease| lease.fence.0 > 0) {
            variables.push((FENCE.to_owned(), lines(innermost().map(|lease| lease.fence))));
        }
        // The number of another lock would mislead.
        let innermost: Vec<Lease> = innermost().cloned().collect();
        let stale = env::var_os(PERMIT).map(|_| String::new());
        variables.extend(permits(&innermost).or(stale).map(|numbers| (PERMIT.to_owned(), numbers)));
    }
    variables
}
