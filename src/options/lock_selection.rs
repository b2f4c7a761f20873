//! Which locks `status` and `history` show: words that are keys, or patterns.

use glob::Pattern;

use crate::cli::LockSelectionArgs;
use crate::error::Failure;
use crate::lock::Key;

/// The locks with these keys, and those that match a pattern.
pub struct LockSelection {
    pub keys: Vec<Key>,
    pub patterns: Vec<Pattern>,
}

impl LockSelection {
    /// Without any word, all locks that begin with `prefix`.
    pub fn of(args: &LockSelectionArgs, prefix: Option<&str>) -> Result<LockSelection, Failure> {
        let mut selection = LockSelection { keys: args.keys.clone(), patterns: Vec::new() };
        for word in &args.words {
            let text = word.as_str();
            if !text.contains(['*', '?']) {
                selection.keys.extend((!selection.keys.contains(word)).then(|| word.clone()));
                continue;
            }
            let refused = |error: glob::PatternError| format!("'{text}' is no pattern: {}", error.msg);
            selection.patterns.push(Pattern::new(text).map_err(|error| Failure::usage(refused(error)))?);
        }
        if selection.keys.is_empty() && selection.patterns.is_empty() {
            let prefix = Pattern::escape(prefix.unwrap_or_default());
            selection.patterns.extend(Pattern::new(&format!("{prefix}*")));
        }
        Ok(selection)
    }

    /// The words that choose them; none for all locks.
    pub fn words(&self) -> String {
        let words = self.keys.iter().map(Key::as_str).chain(self.patterns.iter().map(Pattern::as_str));
        let words = words.collect::<Vec<_>>().join(" ");
        if words == "*" { String::new() } else { words }
    }

    /// Whether it is about one lock.
    pub fn is_one(&self) -> bool {
        self.keys.len() == 1 && self.patterns.is_empty()
    }

    /// Whether a key matches a pattern, and is not shown anyway.
    pub fn matches(&self, key: &Key) -> bool {
        !self.keys.contains(key) && self.patterns.iter().any(|pattern| pattern.matches(key.as_str()))
    }
}
