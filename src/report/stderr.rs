//! Standard error. A reader that stands still misses lines, and holds nothing up.

use std::io::{Write, stderr};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::event::Event;
use crate::poll::is_writable;
use crate::sanitize::sanitize;

/// How long a write waits for room: for others who write to the same terminal, or for a reader of a pipe that is behind.
#[derive(Clone, Copy)]
pub enum Patience {
    /// A lease may be held, and renewed by the thread that writes.
    Short,
    /// Nothing is held any more.
    Long,
}

const SHORT: Duration = Duration::from_millis(100);
/// When the line before was not taken: many lines together cost no lease.
const SHORTEST: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(2);

impl Patience {
    pub fn of(event: &Event) -> Patience {
        match event {
            Event::Failed { .. } | Event::NotAcquired { .. } | Event::Ended { .. } => Patience::Long,
            _ => Patience::Short,
        }
    }
}

/// What became of the last line.
struct LastLine {
    /// A part of it was written, and not its end.
    is_cut: bool,
    /// The reader stood still.
    was_missed: bool,
}

static LAST: Mutex<LastLine> = Mutex::new(LastLine { is_cut: false, was_missed: false });

/// Prints one line of a message. A part of it may come from a server or a file.
pub fn print_message(text: &str, patience: Patience) {
    write(&(sanitize(&format!("redlock: {text}")) + "\n"), patience);
}

/// Writes up to 4,096 bytes in one write, so that the lines of several processes do not mix. An error is ignored: a
/// stderr that is closed must not keep a lock from being released.
pub fn write(text: &str, patience: Patience) {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let text = if last.is_cut { format!("\n{text}") } else { text.to_owned() };
    let patience = match patience {
        Patience::Short if last.was_missed => SHORTEST,
        Patience::Short => SHORT,
        Patience::Long => LONG,
    };
    // poll(2) promises room for one piece in a pipe.
    for piece in text.as_bytes().chunks(libc::PIPE_BUF) {
        last.was_missed = !is_writable(stderr().as_fd(), patience);
        if last.was_missed || stderr().write_all(piece).is_err() {
            return;
        }
        last.is_cut = true;
    }
    last.is_cut = false;
}
