//! Which locks `status` and `history` show: words that are keys, or patterns.

use glob::Pattern;

use crate::error::Failure;
use crate::lock::Key;

/// The locks with these keys, and those that match a pattern.
pub struct Selection {
    pub keys: Vec<Key>,
    pub patterns: Vec<Pattern>,
}

impl Selection {
    /// Without any word, all locks that begin with `prefix`.
    pub fn of(words: &[Key], keys: &[Key], prefix: Option<&str>) -> Result<Selection, Failure> {
        let mut selection = Selection { keys: keys.to_vec(), patterns: Vec::new() };
        for word in words {
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

    /// Whether it is about one lock.
    pub fn is_one(&self) -> bool {
        self.keys.len() == 1 && self.patterns.is_empty()
    }

    /// Whether a key matches a pattern, and is not shown anyway.
    pub fn matches(&self, key: &Key) -> bool {
        !self.keys.contains(key) && self.patterns.iter().any(|pattern| pattern.matches(key.as_str()))
    }
}
