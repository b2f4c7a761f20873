//! Text of others, for a terminal and for the log of a CI system.

/// `text` without anything that a terminal would act on: control characters, and the marks that
/// turn or hide text (Unicode Technical Report 36, "Trojan Source"). And without the commands that the
/// runners of CI systems read in a log: GitHub's finds `##[` anywhere in a line and `::` at its start
/// (ActionCommand.cs), those of Azure and TeamCity find `##vso[` and `##teamcity[`.
pub fn sanitize(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        let before = harmless.chars().next_back();
        if c == '#' && before == Some('#') || c == ':' && harmless.trim_start() == ":" {
            harmless.push(' ');
        }
        harmless.push(match c {
            '\t' | '\n' | '\r' => ' ',
            // The runner compares as people read, and does not see it between two marks.
            c if is_harmful(c) || is_selector(c) && matches!(before, Some('#' | ':')) => '\u{fffd}',
            c => c,
        });
    }
    harmless
}

/// True if a terminal acts on it, line breaks included, or shows nothing for it.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}')
        || matches!(c, '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Chooses between forms of the character before it, as of an emoji.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

#[test]
fn no_runner_finds_a_command() {
    for (text, expected) in [
        ("a ##[set-output name=x]y", "a # #[set-output name=x]y"),
        ("###[", "# # #["),
        ("#\u{ad}#[", "#\u{fffd}#["),
        ("#\u{fe0f}#[", "#\u{fffd}#["),
        ("::add-mask::x", ": :add-mask::x"),
        (" \t::x", "  : :x"),
        (":::x", ": ::x"),
        (":\u{fe0f}:x", ":\u{fffd}:x"),
        ("#1 of cargo test a::b \u{2764}\u{fe0f}", "#1 of cargo test a::b \u{2764}\u{fe0f}"),
    ] {
        assert_eq!(sanitize(text), expected);
        assert_eq!(sanitize(expected), expected);
    }
}
