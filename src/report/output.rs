//! Writing to standard output, and text that is safe to show on a terminal.

use std::io::{self, Write};

use serde_json::Value;

use crate::cli::Color;
use crate::sanitize::is_harmful;

/// True if a stream is to be coloured. NO_COLOR: see no-color.org.
pub fn is_coloured(color: Color, is_terminal: bool) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// Prints an answer. A reader that went away (`status | head`) has seen enough.
pub fn print(text: &[u8]) -> io::Result<()> {
    match print_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints what somebody has to read.
pub fn print_all(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text).and_then(|()| stdout.flush())
}

/// A document with indentation.
pub fn document(value: &Value) -> String {
    escaped(&format!("{value:#}\n"))
}

/// JSON in which characters on which a terminal or the runner of a CI system would act (see [`crate::sanitize`]) are
/// written as escapes such as `\u202e`, which mean the same to a program.
pub fn escaped(json: &str) -> String {
    let mut text = String::new();
    // Outside of strings there is only ASCII, and line feeds of the layout.
    for c in json.chars() {
        let is_command = c == '#' && text.ends_with(|before| matches!(before, '#' | '\u{fe00}'..='\u{fe0f}'));
        if is_command || is_harmful(c) && c != '\n' {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}
