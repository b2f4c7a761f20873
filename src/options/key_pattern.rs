//! Patterns of keys.

use glob::Pattern;

/// `*` means any characters, `?` means one, and every other character means itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    text: String,
    glob: Pattern,
}

impl KeyPattern {
    pub fn new(text: &str) -> KeyPattern {
        // For glob, brackets enclose a class, and two stars are for folders.
        let mut glob = text.replace('[', "[[]");
        while glob.contains("**") {
            glob = glob.replace("**", "*");
        }
        KeyPattern { text: text.to_owned(), glob: Pattern::new(&glob).unwrap_or_default() }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, key: &str) -> bool {
        self.glob.matches(key)
    }
}

#[test]
fn only_stars_and_question_marks_stand_for_others() {
    for (pattern, matching, other) in [
        ("a[1]*", "a[1]", "a1"),
        ("a**b", "a/x/b", "a/x/bc"),
        ("*", "", "x"),
        ("?", "é", ""),
        ("*ab?d*", "abcabxd", "abcab"),
        ("a/*", "a/", "a"),
        ("", "", "a"),
    ] {
        let is_all = pattern == "*";
        assert!(KeyPattern::new(pattern).matches(matching), "{pattern} {matching}");
        assert_eq!(KeyPattern::new(pattern).matches(other), is_all, "{pattern} {other}");
    }
}
