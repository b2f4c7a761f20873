//! The options of the commands that need an owner token: `renew`, `check` and `release`.

use super::global::absolute;
use super::inputs::Inputs;
use super::lock::{keys_above, lock_order};
use crate::cli::OwnerArgs;
use crate::error::Failure;
use crate::lock::{Key, OwnerToken};
use crate::secret::read_token;

pub struct OwnerOptions {
    /// In lock order.
    pub keys: Vec<Key>,
    /// The keys above others in a tree, also among `keys`.
    pub above: Vec<Key>,
    pub token: OwnerToken,
}

impl OwnerOptions {
    /// A file can only be named by a flag, so it is stronger than the token of a variable.
    pub fn resolve(args: OwnerArgs, inputs: &Inputs) -> Result<OwnerOptions, Failure> {
        let prefix = inputs.files.key_prefix();
        let above = if args.tree { keys_above(&args.keys, prefix)? } else { Vec::new() };
        let mut keys = args.keys;
        // The variable of an `acquire --tree` names all of them.
        keys.retain(|key| !above.contains(key));
        keys.extend(above.clone());
        let keys = lock_order(keys)?;
        let token = match (args.token_file, args.token) {
            (Some(path), _) => read_token(&absolute(path)?)?,
            (None, Some(token)) => token,
            (None, None) => {
                let hint = "set REDLOCK_TOKEN, or give --token-file; `redlock status` shows who holds a lock";
                return Err(Failure::usage("the owner token is missing").hint(hint));
            }
        };
        Ok(OwnerOptions { keys, above, token })
    }
}
