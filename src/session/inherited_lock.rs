//! What a job finds in its environment, and the locks of the jobs around us that stand there.

use std::env;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::clock::BootTime;
use crate::error::{CONFIGURATION, Failed};
use crate::job::is_below;
use crate::lock::{FencingToken, Key, Lease, Renewal, Request, Store, Timeout};
use crate::options::Context;

pub const KEY: &str = "REDLOCK_KEY";
pub const TOKEN: &str = "REDLOCK_TOKEN";
pub const FENCE: &str = "REDLOCK_FENCE";
/// All the locks around a job, as JSON; the three above are the innermost ones.
const OUTER: &str = "REDLOCK_OUTER";

/// A lock that is held around us, as the environment says; whether it still is, the store knows.
#[derive(Clone, Serialize, Deserialize)]
pub struct InheritedLock {
    key: String,
    token: String,
    fence: u64,
    /// Of a lock that a `redlock run` holds, which renews it: the guard of its job. Otherwise it was taken by hand.
    guard: Option<u32>,
}

impl InheritedLock {
    /// The innermost lock on `key` around us.
    pub fn on(key: &Key) -> Option<InheritedLock> {
        all().into_iter().rfind(|enclosing| enclosing.key == key.as_str())
    }

    /// The job of the `redlock run` that holds it has us in it, so that we end with it.
    pub fn is_kept(&self) -> bool {
        self.guard.is_some_and(is_below)
    }

    /// The lease of a lock around us, when the store says that it is still held.
    pub fn borrow(
        &self,
        request: &Request,
        store: &mut dyn Store,
        interrupt: BorrowedFd,
        context: &Context,
    ) -> anyhow::Result<Option<Lease>> {
        let Ok(token) = self.token.parse() else { return Ok(None) };
        let request = Request { token, ..request.clone() };
        let sent = BootTime::now();
        let patience = Timeout::or_interrupt(context.attempt, interrupt);
        let held = if self.is_kept() {
            store.check(&request.key, &request.token, &patience).map(|left| left.is_some())
        } else {
            // From now on somebody renews it, at least as long as our job runs.
            store.renew(&request, None, &patience).map(|renewal| matches!(renewal, Renewal::Extended))
        };
        if !held.map_err(|error| context.explain(error))? {
            return Ok(None);
        }
        let status = store.status(std::slice::from_ref(&request.key), &patience);
        let status = status.map_err(|error| context.explain(error))?;
        if let Some(status) = status.first().filter(|status| !status.mode.covers(request.mode)) {
            let why = format!(
                "a job around this one holds '{}' as {}, and this one would wait for it; ask for the same kind in both",
                request.key, status.mode
            );
            return Err(Failed { code: CONFIGURATION, why }.into());
        }
        Ok(Some(Lease::borrowed(request, FencingToken(self.fence), sent)))
    }
}

/// The locks around us, from the outermost to the innermost.
fn all() -> Vec<InheritedLock> {
    let kept = env::var(OUTER).ok();
    let mut all: Vec<InheritedLock> =
        kept.and_then(|kept| serde_json::from_str(&kept).ok()).unwrap_or_default();
    if let (Ok(keys), Ok(token)) = (env::var(KEY), env::var(TOKEN))
        && !all.iter().any(|known| known.token == token)
    {
        // From the `export` line of `redlock acquire`.
        let fences = env::var(FENCE).unwrap_or_default();
        let mut fences = fences.lines().map(|fence| fence.parse().unwrap_or(0));
        all.extend(keys.lines().map(|key| {
            let fence = fences.next().unwrap_or(0);
            InheritedLock { key: key.to_owned(), token: token.clone(), fence, guard: None }
        }));
    }
    all
}

/// What the command of a job under this guard, which runs under `leases`, adds to its environment. With one line for
/// each lock, of those that were taken last.
pub fn environment(leases: &[Lease], guard: u32) -> Vec<(String, String)> {
    let mut all = all();
    for lease in leases {
        let (key, token) = (lease.request.key.to_string(), lease.request.token.expose().to_owned());
        let known = all.iter().position(|known| known.token == token && known.key == key);
        let known = known.map(|index| all.remove(index)).filter(InheritedLock::is_kept);
        let guard = known.and_then(|enclosing| enclosing.guard).or(Some(guard));
        all.push(InheritedLock { key, token, fence: lease.fence.0, guard });
    }
    let mut variables = vec![(OUTER.to_owned(), serde_json::to_string(&all).unwrap_or_default())];
    if let Some(token) = leases.last().map(|lease| lease.request.token.expose()) {
        let innermost = || leases.iter().filter(|lease| lease.request.token.expose() == token);
        variables.push((KEY.to_owned(), lines(innermost().map(|lease| &lease.request.key))));
        variables.push((TOKEN.to_owned(), token.to_owned()));
        // That of a lock that was taken by hand is known only if it was told.
        if innermost().all(|lease| lease.fence.0 > 0) {
            variables.push((FENCE.to_owned(), lines(innermost().map(|lease| lease.fence))));
        }
    }
    variables
}

/// One for each line: a key has no line feed in it.
pub fn lines(values: impl Iterator<Item = impl ToString>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join("\n")
}
