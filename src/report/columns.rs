//! The width of text on a terminal, where a character takes none, one or two columns.

use unicode_width::UnicodeWidthStr;

/// `text` with spaces behind it, `width` columns wide at least.
pub fn pad(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(text.width()))
}

/// The columns that the widest of `texts` takes.
pub fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(UnicodeWidthStr::width).max().unwrap_or(0)
}

#[test]
fn a_wide_character_takes_two_columns() {
    assert_eq!(widest(["ab", "日本", "e\u{301}"].into_iter()), 4);
    assert_eq!(pad("日本", 6), "日本  ");
    assert_eq!(pad("e\u{301}", 2), "e\u{301} ");
}
