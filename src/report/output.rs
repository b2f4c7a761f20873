//! Writing to standard output and standard error.

use std::io::{self, Write};

use crate::sanitize::sanitize;

/// Writes one line to stderr in one write, so that the lines of several processes do not mix. An error is ignored: a
/// stderr that is closed or full must not keep a lock from being released.
pub fn print_message(text: &str) {
    // A part of it may come from a server or a file.
    let text = sanitize(&format!("redlock: {text}")) + "\n";
    let _ = io::stderr().write_all(text.as_bytes());
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
