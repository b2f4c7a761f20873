//! Patterns of keys.

/// `*` stands for any characters, `?` for one, and every other character for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern(String);

impl KeyPattern {
    pub fn new(text: &str) -> KeyPattern {
        KeyPattern(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, key: &str) -> bool {
        let (pattern, key): (Vec<char>, Vec<char>) = (self.0.chars().collect(), key.chars().collect());
        let (mut place, mut seen) = (0, 0);
        // Behind the last star, and how much of the key the stars so far have taken.
        let mut star = None;
        while seen < key.len() {
            match (pattern.get(place), star) {
                (Some('*'), _) => {
                    place += 1;
                    star = Some((place, seen));
                }
                (Some(c), _) if *c == '?' || *c == key[seen] => (place, seen) = (place + 1, seen + 1),
                (_, Some((behind, taken))) => {
                    (place, seen) = (behind, taken + 1);
                    star = Some((behind, seen));
                }
                (_, None) => return false,
            }
        }
        pattern[place..].iter().all(|c| *c == '*')
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
