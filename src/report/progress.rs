//! The progress display while a lock is waited for.

use std::io::{self, IsTerminal};
use std::time::Duration;

use nix::unistd::{getpgrp, tcgetpgrp};

use super::stderr::{print_message, write};
use super::wait_status::WaitStatus;
use super::width::columns;
use crate::clock::{BootTime, Deadline};
use crate::sanitize::sanitize;

/// One live line on a terminal. Elsewhere a line at once, when something changes, and every minute: CI systems stop a
/// job that says nothing for long.
pub struct WaitDisplay {
    is_terminal: bool,
    /// The live line that is on the terminal.
    live: Option<String>,
    /// There was one.
    was_live: bool,
    /// Nothing was shown yet.
    is_new: bool,
    log: LogPace,
}

/// When a log gets its next line.
pub struct LogPace {
    standing: String,
    next_line: Deadline,
    next_change: Deadline,
}

/// Between two lines in a log at the most, and at the least.
const LONGEST_SILENCE: Duration = Duration::from_secs(55);
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);

/// To the begin of the line, and no line break at its end: terminals do not agree on the width of all characters.
const BEGIN: &str = "\r\x1b[?7l";
/// The rest of the line is empty.
const END: &str = "\x1b[K\x1b[?7h";

impl WaitDisplay {
    pub fn new() -> WaitDisplay {
        WaitDisplay {
            is_terminal: io::stderr().is_terminal()
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            live: None,
            was_live: false,
            is_new: true,
            log: LogPace::new(),
        }
    }

    pub fn show(&mut self, status: &WaitStatus) {
        if self.is_terminal && !is_in_foreground() {
            // The terminal is somebody else's, as the shell's after `&`: it gets one line.
            if self.live.take().is_some() || std::mem::take(&mut self.is_new) {
                print_message(&status.long);
            }
            self.was_live = false;
        } else if self.is_terminal {
            self.is_new = false;
            let line = status.fitted(columns(io::stderr()).saturating_sub(1));
            if self.live.as_ref() != Some(&line) {
                write(&format!("{BEGIN}{line}{END}"));
                (self.live, self.was_live) = (Some(line), true);
            }
        } else if self.log.is_due(&status.standing) {
            print_message(&status.long);
        }
    }

    /// Makes room for another line.
    pub fn clear(&mut self) {
        if self.live.take().is_some() {
            write(&format!("{BEGIN}{END}"));
        }
    }

    /// Where there was a live line, one that stays takes its place.
    pub fn conclude(&mut self, text: &str, is_dim: bool) {
        if std::mem::take(&mut self.was_live) {
            let (dim, plain) = if is_dim { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
            let line = sanitize(&format!("redlock: {text}"));
            write(&format!("{dim}{line}{plain}\n"));
        }
    }
}

/// True while the terminal belongs to the group of this process.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp())
}

impl LogPace {
    pub fn new() -> LogPace {
        let now = BootTime::from_nanos(0);
        LogPace { standing: String::new(), next_line: now, next_change: now }
    }

    pub fn is_due(&mut self, standing: &str) -> bool {
        let has_changed = standing != self.standing && self.next_change.has_passed();
        let is_due = has_changed || self.next_line.has_passed();
        if is_due {
            standing.clone_into(&mut self.standing);
            self.next_line = Deadline::after(LONGEST_SILENCE);
            self.next_change = Deadline::after(SHORTEST_SILENCE);
        }
        is_due
    }
}

/// With a hundred waiters and a holder that changes, and then with one that stays.
#[test]
fn a_log_is_never_silent_for_long_nor_flooded() {
    use crate::clock::fake;
    fake::start();
    let (mut pace, mut last, mut lines) = (LogPace::new(), BootTime::now(), 0);
    let mut wait = |standing: &str, millis: u64| {
        fake::move_to(BootTime::now().plus(Duration::from_millis(millis)));
        if pace.is_due(standing) {
            last = BootTime::now();
            lines += 1;
        }
        (BootTime::now().since(last), lines)
    };
    assert_eq!(wait("first", 0), (Duration::ZERO, 1));
    let changes = (0..100).map(|ahead| wait(&ahead.to_string(), 100));
    let (_, lines) = changes.last().unwrap_or_default();
    assert!((9..=11).contains(&lines), "{lines}");
    for _ in 0..7200 {
        let (silence, _) = wait("last", 1000);
        assert!(silence <= Duration::from_secs(60), "{silence:?}");
    }
    assert!(wait("last", 1000).1 < 150);
}
