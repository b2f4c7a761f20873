//! JSON documents that are safe to show on a terminal.

use serde_json::Value;

use crate::sanitize::is_harmful;

/// A document with indentation. Characters on which a terminal or the runner of a CI system would act (see
/// [`crate::sanitize`]) are written as escapes such as `\u202e`, which mean the same to a program.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    // Outside of strings there is only ASCII, and line feeds of the layout.
    for c in format!("{value:#}\n").chars() {
        let is_command = c == '#' && text.ends_with(|before| matches!(before, '#' | '\u{fe00}'..='\u{fe0f}'));
        if is_command || is_harmful(c) && c != '\n' {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}
