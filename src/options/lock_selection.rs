//! The locks that `status` and `history` show: words that are keys, or patterns.

use super::key_pattern::KeyPattern;
use crate::cli::LockSelectionArgs;
use crate::lock::Key;

/// The locks with these keys, and those that match a pattern.
pub struct LockSelection {
    pub keys: Vec<Key>,
    pub patterns: Vec<KeyPattern>,
}

impl LockSelection {
    /// Without any word, all locks that begin with `prefix`.
    pub fn of(args: &LockSelectionArgs, prefix: Option<&str>) -> LockSelection {
        let is_pattern = |word: &&Key| word.as_str().contains(['*', '?']);
        let mut selection = LockSelection { keys: Vec::new(), patterns: Vec::new() };
        for key in args.keys.iter().chain(args.words.iter().filter(|word| !is_pattern(word))) {
            if !selection.keys.contains(key) {
                selection.keys.push(key.clone());
            }
        }
        let patterns = args.words.iter().filter(is_pattern).map(|word| KeyPattern::new(word.as_str()));
        selection.patterns = patterns.collect();
        if selection.keys.is_empty() && selection.patterns.is_empty() {
            selection.patterns.push(KeyPattern::new(&format!("{}*", prefix.unwrap_or_default())));
        }
        selection
    }

    /// The words that choose them; none for all locks.
    pub fn words(&self) -> String {
        let words = self.keys.iter().map(Key::as_str).chain(self.patterns.iter().map(KeyPattern::as_str));
        let words = words.collect::<Vec<_>>().join(" ");
        if words == "*" { String::new() } else { words }
    }

    /// True if it is about one lock.
    pub fn is_one(&self) -> bool {
        self.keys.len() == 1 && self.patterns.is_empty()
    }

    /// True if a key matches a pattern, and is not shown anyway.
    pub fn matches(&self, key: &Key) -> bool {
        !self.keys.contains(key) && self.patterns.iter().any(|pattern| pattern.matches(key.as_str()))
    }
}

#[test]
fn a_key_that_is_named_twice_is_shown_once() {
    let keys = |names: &[&str]| names.iter().filter_map(|name| name.parse().ok()).collect::<Vec<Key>>();
    let args = LockSelectionArgs { words: keys(&["b", "c", "d*"]), keys: keys(&["a", "b", "a"]) };
    let selection = LockSelection::of(&args, None);
    assert_eq!((selection.keys, selection.patterns), (keys(&["a", "b", "c"]), vec![KeyPattern::new("d*")]));
}
