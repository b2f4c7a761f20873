//! Text in lines that the screen has room for.

use ratatui::text::Span;

use crate::report::wrapped;
use crate::sanitize::sanitize;

/// All of the text in lines of so many columns, broken between words where that can be.
pub fn folded(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in wrapped(&sanitize(text), columns) {
        let (mut part, mut width) = (String::new(), 0);
        for c in line.chars() {
            let more = Span::raw(c.to_string()).width();
            if width + more > columns && !part.is_empty() {
                lines.push(std::mem::take(&mut part));
                width = 0;
            }
            part.push(c);
            width += more;
        }
        lines.push(part);
    }
    lines
}
