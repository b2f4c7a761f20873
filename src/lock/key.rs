//! The name of a lock.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

const LONGEST: usize = 512;

/// Names that begin so are redlock's own. No store takes them as a key, so that a lock can move to any other store.
const RESERVED: &str = "redlock:{";

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// A key that nobody uses, to try a store with. Its name is one that every user of redlock may write to, whatever
    /// their own keys are called, and that `status` does not show.
    pub fn scratch() -> Key {
        Key(format!("{RESERVED}redlock-doctor-{}}}", Uuid::new_v4()))
    }

    /// The same key with this before it, unless it begins so.
    ///
    /// # Errors
    ///
    /// The reason why the whole is not a key.
    pub fn with_prefix(&self, prefix: &str) -> Result<Key, String> {
        if self.0.starts_with(prefix) { Ok(self.clone()) } else { format!("{prefix}{self}").parse() }
    }

    /// The keys above this one in a tree, whose levels `/` separates: of `a/b/c`, first `a`, then `a/b`. None is shorter than
    /// the `prefix` that all keys have.
    ///
    /// # Errors
    ///
    /// The reason why it has no place in a tree.
    pub fn above(&self, prefix: &str) -> Result<Vec<Key>, String> {
        let all = self.0.strip_prefix(prefix).unwrap_or(&self.0);
        let before = &self.0[..self.0.len() - all.len()];
        let path = all.strip_prefix('/').unwrap_or(all);
        if path.split('/').any(str::is_empty) {
            return Err(format!("'{self}' has an empty level; write it as data/eu/orders"));
        }
        let ends = all.match_indices('/').map(|(place, _)| &all[..place]);
        ends.filter(|above| !above.is_empty()).map(|above| format!("{before}{above}").parse()).collect()
    }

    /// As the user wrote it: what a store uses, and not fit for a terminal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(RESERVED) {
            return Err(format!(
                "keys that begin with '{RESERVED}' are for redlock's own use; choose another"
            ));
        }
        if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
            return Err(format!(
                "a key is 1 to {LONGEST} bytes of text without control characters, for example nightly-backup"
            ));
        }
        Ok(Key(text.to_owned()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[test]
fn a_key_of_a_tree_has_others_above_it() {
    let above = |name: &str| {
        let key: Key = name.parse().map_err(|_| ())?;
        key.above("team/")
            .map(|above| above.iter().map(Key::to_string).collect::<Vec<_>>().join(" "))
            .map_err(drop)
    };
    for (name, expected) in [
        ("a", ""),
        ("a/b/c", "a a/b"),
        ("/a/b", "/a"),
        ("{a}/b", "{a}"),
        ("a b/ü", "a b"),
        ("team/a/b", "team/a"),
    ] {
        assert_eq!(above(name).unwrap_or("-".to_owned()), expected, "{name}");
    }
    assert_eq!(["a//b", "a/", "/", "//a"].map(above), [const { Err(()) }; 4]);
}
