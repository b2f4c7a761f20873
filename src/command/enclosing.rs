//! What a job finds in its environment, and the locks of the jobs around us that stand there.

use std::collections::BTreeMap;
use std::env;

use crate::lock::{FencingToken, Key, OwnerToken};

const KEY: &str = "REDLOCK_KEY";
const TOKEN: &str = "REDLOCK_TOKEN";
const FENCE: &str = "REDLOCK_FENCE";
/// A JSON object: the owner token for each key that an outer job holds, beside the innermost one.
const OUTER: &str = "REDLOCK_OUTER";

/// The owner token for each key that the jobs around us hold, as they say.
pub fn tokens() -> BTreeMap<String, String> {
    let outer = env::var(OUTER).ok();
    let mut tokens: BTreeMap<String, String> =
        outer.and_then(|outer| serde_json::from_str(&outer).ok()).unwrap_or_default();
    if let (Ok(key), Ok(token)) = (env::var(KEY), env::var(TOKEN)) {
        tokens.insert(key, token);
    }
    tokens
}

/// What the command of a job adds to its environment.
pub fn environment(key: &Key, token: &OwnerToken, fence: FencingToken) -> Vec<(String, String)> {
    let mut variables = vec![
        (KEY.to_owned(), key.to_string()),
        (TOKEN.to_owned(), token.expose().to_owned()),
        (FENCE.to_owned(), fence.to_string()),
    ];
    let outer = tokens();
    if !outer.is_empty() {
        variables.push((OUTER.to_owned(), serde_json::to_string(&outer).unwrap_or_default()));
    }
    variables
}
