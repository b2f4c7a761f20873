//! Words as they can be given to a shell again.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use crate::sanitize::{is_harmful, sanitize};

/// `word` as a shell reads it. Characters that a terminal or a log would not show as they are become escapes.
pub fn quoted(word: &OsStr) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    match word.to_str() {
        Some(text) if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) => {
            text.to_owned()
        }
        Some(text) if sanitize(text) == text => format!("'{}'", text.replace('\'', r"'\''")),
        _ => escaped(word.as_bytes()),
    }
}

/// `$'…'`, which bash, zsh, ksh and busybox read.
fn escaped(bytes: &[u8]) -> String {
    let mut text = "$'".to_owned();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            // Writing to a string cannot fail.
            let _ = match c {
                '\'' | '\\' => write!(text, "\\{c}"),
                '#' => write!(text, "\\x23"),
                c if c.is_ascii_control() => write!(text, "\\x{:02x}", u32::from(c)),
                c if is_harmful(c) && u32::from(c) > 0xffff => write!(text, "\\U{:08x}", u32::from(c)),
                c if is_harmful(c) => write!(text, "\\u{:04x}", u32::from(c)),
                c => write!(text, "{c}"),
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text + "'"
}

#[test]
fn a_shell_reads_what_was_quoted() {
    for (word, expected) in [
        (&b"deploy"[..], "deploy"),
        (b"a b", "'a b'"),
        (b"it's", r"'it'\''s'"),
        (b"", "''"),
        (b"=ls", "'=ls'"),
        (b"a\nb", r"$'a\x0ab'"),
        (b"\xff'", r"$'\xff\''"),
        ("\u{202e}x".as_bytes(), r"$'\u202ex'"),
        (b"##[x]", r"$'\x23\x23[x]'"),
    ] {
        assert_eq!(quoted(OsStr::from_bytes(word)), expected);
    }
}
