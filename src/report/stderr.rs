//! Standard error. A reader that stands still gets its lines later, and holds nothing up.

use std::io::{ErrorKind, Write, stderr};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::poll::is_writable;
use crate::sanitize::sanitize;

/// How long a line waits for room: for others who write to the same terminal, or for a reader of a pipe that is behind. A
/// lease is renewed by a thread that waits here.
const PATIENCE: Duration = Duration::from_millis(100);
/// Behind a line that found none: many lines together cost no lease.
const SHORTEST: Duration = Duration::from_millis(10);
/// At the end of redlock, which holds nothing any more.
const LAST: Duration = Duration::from_secs(2);
/// Bytes that are kept for a reader. It misses what comes when there are more.
const MOST: usize = 64 << 10;

/// What found no room so far.
static WAITING: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Prints one line of a message. A part of it may come from a server or a file.
pub fn print_message(text: &str) {
    write(&(sanitize(&format!("redlock: {text}")) + "\n"));
}

/// Writes up to 4,096 bytes in one write, so that the lines of several processes do not mix. An error is ignored: a
/// stderr that is closed must not keep a lock from being released.
pub fn write(text: &str) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let patience = if waiting.is_empty() { PATIENCE } else { SHORTEST };
    if waiting.len() < MOST {
        waiting.extend(text.as_bytes());
    }
    write_out(&mut waiting, patience);
}

/// Gives a reader that is only slow the rest.
pub fn flush() {
    write_out(&mut WAITING.lock().unwrap_or_else(PoisonError::into_inner), LAST);
}

fn write_out(waiting: &mut Vec<u8>, patience: Duration) {
    while !waiting.is_empty() && is_writable(stderr().as_fd(), patience) {
        // poll(2) promises room for that much in a pipe.
        let piece = waiting.len().min(libc::PIPE_BUF);
        match stderr().write(&waiting[..piece]) {
            Ok(written) => drop(waiting.drain(..written)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => waiting.clear(),
        }
    }
}
