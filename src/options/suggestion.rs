//! Did you mean: the known word that is nearest to an unknown one.

/// The candidate that differs least from `word`: by one letter in three at most, or as the rest of it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let most = (length / 3).max(1);
    let near = candidates.into_iter().filter_map(|candidate| {
        let distance = strsim::osa_distance(word, candidate);
        let is_beginning = length >= 3 && candidate.starts_with(word);
        (length >= 2 && (distance <= most || is_beginning)).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[test]
fn a_slip_of_the_finger_is_recognised() {
    let names = ["run", "release", "renew", "status", "ttl", "timeout"];
    for (word, expected) in [
        ("rnu", Some("run")),
        ("relaese", Some("release")),
        ("stat", Some("status")),
        ("tll", Some("ttl")),
        ("timout", Some("timeout")),
        ("deploy", None),
        ("report", None),
        ("x", None),
    ] {
        assert_eq!(nearest(word, names), expected, "{word}");
    }
}
