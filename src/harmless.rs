//! Text of others, for a terminal.

/// `text` without anything that a terminal would act on: control characters, and the marks that
/// turn or hide text (Unicode Technical Report 36, "Trojan Source").
pub fn harmless(text: &str) -> String {
    let harmless = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if is_harmful(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(harmless).collect()
}

/// Whether a terminal acts on it, line breaks included.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
