//! Text in columns of a terminal, of which a character takes none, one or two.

use std::iter::repeat_n;
use std::os::fd::AsFd;

use clap::builder::styling::Style;
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns of the terminal that `stream` is; 80 if it does not say.
pub fn columns(stream: impl AsFd) -> usize {
    size(stream).0.into()
}

/// The columns and rows of the terminal that `stream` is; 80 and 24 if it does not say.
pub fn size(stream: impl AsFd) -> (u16, u16) {
    let (Width(columns), Height(rows)) = terminal_size_of(stream).unwrap_or((Width(0), Height(0)));
    (if columns > 0 { columns } else { 80 }, if rows > 0 { rows } else { 24 })
}

/// As much of the beginning of `text` as `columns` have room for.
pub fn cut(text: &str, columns: usize) -> String {
    if text.is_ascii() && text.len() <= columns {
        return text.to_owned();
    }
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

/// The columns that `text` takes. A table of ten thousand locks has little but ASCII.
fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// `text` with spaces behind it, `width` columns wide at least.
pub fn pad(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(self::width(text)))
}

/// Cells of a bar.
const BAR: usize = 8;

/// A bar of which a part between 0 and 1 is full. It always takes the same columns.
pub fn bar(part: f64) -> String {
    let eighths = (part.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let full = "█".repeat(eighths / 8) + ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let empty = BAR - eighths.div_ceil(8);
    full + &"░".repeat(empty)
}

/// The columns that the widest of `texts` takes.
pub fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(width).max().unwrap_or(0)
}

/// Rows as lines, of which the first one is the heading.
pub fn table<const N: usize>(rows: &[[String; N]], heading: Style, columns: usize) -> String {
    let line = |(number, line): (usize, String)| {
        let style = if number == 0 { heading } else { Style::new() };
        format!("{style}{line}{style:#}\n")
    };
    aligned(rows, columns).into_iter().enumerate().map(line).collect()
}

/// Rows as lines, cut at the `columns` of a terminal; their first cell may be long.
pub fn aligned<const N: usize>(rows: &[[String; N]], columns: usize) -> Vec<String> {
    let mut widths: [usize; N] =
        std::array::from_fn(|column| widest(rows.iter().map(|row| &row[column][..])));
    // A long key leaves room for the others.
    widths[0] = widths[0].min((columns / 3).max(8));
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for (cell, column) in row.iter().zip(widths) {
            let cell = cut(cell, column);
            line += &cell;
            line.extend(repeat_n(' ', column.saturating_sub(width(&cell)) + 2));
        }
        cut(line.trim_end(), columns)
    };
    rows.iter().map(line).collect()
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
