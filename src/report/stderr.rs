//! Standard error. A reader that stands still gets its lines later, and holds nothing up.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write, stderr};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::stat::{SFlag, fstat};

use super::details::wrapped;
use super::width::columns;
use crate::clock::Deadline;
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

/// Text that found no room so far.
static WAITING: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Standard error where writing never blocks.
static UNBLOCKED: LazyLock<Option<File>> = LazyLock::new(open_unblocked);

/// Prints a message: one line, which a terminal shows as lines that end between words. A part of it may come from a
/// server or a file.
pub fn print_message(text: &str) {
    let line = sanitize(&format!("redlock: {text}"));
    let shown = if stderr().is_terminal() { wrapped(&line, columns(stderr())).join("\n") } else { line };
    write(&(shown + "\n"));
}

/// Prints on a terminal why redlock failed. The advice is a line of its own; lines end between words. The name says which
/// program speaks: a command that redlock runs may print an `error:` as well.
pub fn print_failure(reason: &str, hint: Option<&str>, is_coloured: bool) {
    let style = |style: Style| if is_coloured { style } else { Style::new() };
    let columns = columns(stderr());
    let mut text = String::new();
    for (name, label, style, what) in [
        ("redlock: ", "error:", style(AnsiColor::Red.on_default().bold()), Some(reason)),
        ("", "hint:", style(AnsiColor::Cyan.on_default()), hint),
    ] {
        let Some(what) = what else { continue };
        let begin = format!("{name}{label}");
        let lines = wrapped(&sanitize(&format!("{begin} {what}")), columns).join("\n");
        let rest = lines.get(begin.len()..).unwrap_or_default();
        text += &format!("{name}{style}{label}{style:#}{rest}\n");
    }
    write(&text);
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

/// In the background of a terminal with `stty tostop` a write would stop redlock, unless it blocks SIGTTOU: see
/// tty_ioctl(4).
fn write_out(waiting: &mut Vec<u8>, patience: Duration) {
    let stops = SigSet::from(Signal::SIGTTOU);
    let mask = stderr().is_terminal().then(|| stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()).flatten();
    write_unstopped(waiting, patience);
    mask.iter().for_each(|mask| _ = mask.thread_set_mask());
}

fn write_unstopped(waiting: &mut Vec<u8>, patience: Duration) {
    let until = Deadline::after(patience);
    while !waiting.is_empty() && is_writable(stderr().as_fd(), until.left()) {
        // poll(2) promises room for that much in a pipe, and for less in a terminal.
        let piece = &waiting[..waiting.len().min(libc::PIPE_BUF)];
        let written = match &*UNBLOCKED {
            Some(own) => (&mut &*own).write(piece),
            None => stderr().write(piece),
        };
        match written {
            Ok(written) => drop(waiting.drain(..written)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(SHORTEST.min(until.left())),
            Err(_) => waiting.clear(),
        }
    }
}

/// A pipe or a terminal once more, with O_NONBLOCK: the job shares the descriptor 2 with all of its flags. Where it
/// cannot be opened, as a terminal behind su(1), a write may have to wait for its reader.
fn open_unblocked() -> Option<File> {
    let mode = SFlag::from_bits_truncate(fstat(stderr()).ok()?.st_mode) & SFlag::S_IFMT;
    if mode != SFlag::S_IFIFO && !stderr().is_terminal() {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/2").ok()
}
