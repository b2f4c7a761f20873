//! Text in columns of a terminal, of which a character takes none, one or two.

use std::os::fd::AsFd;

use clap::builder::styling::Style;
use terminal_size::{Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns of the terminal that `stream` is; 80 if it does not say.
pub fn columns(stream: impl AsFd) -> usize {
    let size = terminal_size_of(stream).filter(|(Width(columns), _)| *columns > 0);
    size.map_or(80, |(Width(columns), _)| columns.into())
}

/// As much of the beginning of `text` as `columns` have room for.
pub fn cut(text: &str, columns: usize) -> String {
    let mut taken = 0;
    let mut fits = 0;
    for (place, c) in text.char_indices() {
        // The sign that makes an emoji of a character makes it wider.
        let width = if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) };
        taken += width;
        if taken > columns {
            return text[..fits].to_owned() + "…";
        }
        if taken < columns {
            fits = place + c.len_utf8();
        }
    }
    text.to_owned()
}

/// `text` with spaces behind it, `width` columns wide at least.
pub fn pad(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(text.width()))
}

/// The columns that the widest of `texts` takes.
pub fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// Rows in columns, of which the first one may be long; the first row is the heading. Cut at the `columns` of a terminal.
pub fn table<const N: usize>(rows: &[[String; N]], heading: Style, columns: usize) -> String {
    let mut widths: [usize; N] =
        std::array::from_fn(|column| widest(rows.iter().map(|row| &row[column][..])));
    // A long key leaves room for the others.
    widths[0] = widths[0].min((columns / 3).max(8));
    let line = |(number, row): (usize, &[String; N])| {
        let cells = row.iter().zip(widths).map(|(cell, width)| pad(&cut(cell, width), width));
        let cells: Vec<String> = cells.collect();
        let style = if number == 0 { heading } else { Style::new() };
        format!("{style}{}{style:#}\n", cut(cells.join("  ").trim_end(), columns))
    };
    rows.iter().enumerate().map(line).collect()
}

#[test]
fn a_line_is_cut_at_columns_of_the_terminal() {
    for (text, columns, expected) in [
        ("deploy", 6, "deploy"),
        ("deploy", 5, "depl…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("a❤\u{fe0f}bcd", 5, "a❤\u{fe0f}b…"),
        ("🎉🎉🎉", 5, "🎉🎉…"),
        ("שלום", 3, "של…"),
        ("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}"),
        ("x", 0, "…"),
    ] {
        assert_eq!(cut(text, columns), expected, "{text} {columns}");
    }
}

#[test]
fn a_wide_character_takes_two_columns() {
    assert_eq!(widest(["ab", "日本", "e\u{301}"].into_iter()), 4);
    assert_eq!(pad("日本", 6), "日本  ");
    assert_eq!(pad("e\u{301}", 2), "e\u{301} ");
}
