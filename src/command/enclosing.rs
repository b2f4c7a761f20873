//! What a job finds in its environment, and the locks of the jobs around us that stand there.

use std::env;

use serde::{Deserialize, Serialize};

use crate::lock::{FencingToken, Key, Lease, OwnerToken};
use crate::process::is_below;

const KEY: &str = "REDLOCK_KEY";
const TOKEN: &str = "REDLOCK_TOKEN";
const FENCE: &str = "REDLOCK_FENCE";
/// All the locks around a job, as JSON; the three above are the innermost one.
const OUTER: &str = "REDLOCK_OUTER";

/// A lock that is held around us, as the environment says; whether it still is, the store knows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Enclosing {
    key: String,
    token: String,
    fence: u64,
    /// Of a lock that a `redlock run` holds, which renews it: the guard of its job. Otherwise it was taken by hand.
    guard: Option<u32>,
}

impl Enclosing {
    /// The innermost lock on `key` around us.
    pub fn on(key: &Key) -> Option<Enclosing> {
        all().into_iter().rfind(|enclosing| enclosing.key == key.as_str())
    }

    /// The job of the `redlock run` that holds it has us in it, so that we end with it.
    pub fn is_kept(&self) -> bool {
        self.guard.is_some_and(is_below)
    }

    pub fn token(&self) -> Option<OwnerToken> {
        self.token.parse().ok()
    }

    pub fn fence(&self) -> FencingToken {
        FencingToken(self.fence)
    }
}

/// The locks around us, from the outermost to the innermost.
fn all() -> Vec<Enclosing> {
    let kept = env::var(OUTER).ok();
    let mut all: Vec<Enclosing> = kept.and_then(|kept| serde_json::from_str(&kept).ok()).unwrap_or_default();
    if let (Ok(key), Ok(token)) = (env::var(KEY), env::var(TOKEN))
        && !all.iter().any(|known| known.token == token)
    {
        // From the `export` line of `redlock acquire`.
        let fence = env::var(FENCE).ok().and_then(|fence| fence.parse().ok()).unwrap_or(0);
        all.push(Enclosing { key, token, fence, guard: None });
    }
    all
}

/// What the command of a job under this guard, which runs under `lease`, adds to its environment.
pub fn environment(lease: &Lease, guard: u32) -> Vec<(String, String)> {
    let (key, token, fence) = (&lease.request.key, lease.request.token.expose(), lease.fence);
    let mut all = all();
    let kept = all.iter().find(|enclosing| enclosing.token == token && enclosing.is_kept());
    let guard = kept.and_then(|enclosing| enclosing.guard).or(Some(guard));
    all.retain(|enclosing| enclosing.token != token);
    all.push(Enclosing { key: key.to_string(), token: token.to_owned(), fence: fence.0, guard });
    let mut variables = vec![
        (KEY.to_owned(), key.to_string()),
        (TOKEN.to_owned(), token.to_owned()),
        (OUTER.to_owned(), serde_json::to_string(&all).unwrap_or_default()),
    ];
    // That of a lock that was taken by hand is known only if it was told.
    if fence.0 > 0 {
        variables.push((FENCE.to_owned(), fence.to_string()));
    }
    variables
}
