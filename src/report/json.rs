use serde_json::Value;

use crate::sanitize::is_harmful;

/// A document, in lines. What a terminal would act on, or the runner of a CI system (see [`crate::sanitize`]), is
/// written as JSON's `\u202e`: no program reads anything else there, and a person can look at it.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    // All that stands outside of strings is ASCII, and the lines are ours.
    for c in format!("{value:#}\n").chars() {
        match c {
            '#' if text.ends_with(|before| matches!(before, '#' | '\u{fe00}'..='\u{fe0f}')) => {
                text += "\\u0023"
            }
            c if c == '\n' || !is_harmful(c) => text.push(c),
            c => {
                let units = c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>();
                text += &units;
            }
        }
    }
    text
}
