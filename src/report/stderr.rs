use std::fmt::Display;
use std::io::{self, Write};

use crate::sanitize::sanitize;

/// The lines on stderr.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages {
    /// Errors only.
    pub quiet: bool,
    /// Notes as well.
    pub verbose: bool,
}

impl Messages {
    /// Something failed.
    pub fn error(self, text: impl Display) {
        line(text);
    }

    /// Something is not as it should be, and the work goes on.
    pub fn warning(self, text: impl Display) {
        if !self.quiet {
            line(text);
        }
    }

    /// What is being done, for those who asked.
    pub fn note(self, text: impl Display) {
        if self.verbose {
            line(text);
        }
    }
}

/// One line in one write, so that the lines of many processes do not mix. A stderr that is closed or full
/// must not keep anybody from giving a lock back.
fn line(text: impl Display) {
    // What a server or a file says is no text for a terminal.
    let text = sanitize(&format!("redlock: {text}")) + "\n";
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints what was asked for. A reader that went away (`status | head`) has seen enough.
///
/// # Errors
///
/// Standard output took less than all of it.
pub fn print(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
