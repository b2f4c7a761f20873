//! Passes the signals that came to redlock on to the job, to each process once.
//!
//! A signal for the whole process group, as of `kill -- -PGID`, reaches the job without redlock's help, and siginfo_t does
//! not tell it from one for redlock alone. The command's parent tells: it is in the group, and blocks all signals.

use std::ffi::c_int;
use std::time::Duration;

use crate::clock::BootTime;

/// timeout(1) signals its child first, and its process group right after that.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Default)]
pub struct Relay {
    /// Each with the time at which to pass it on, unless it is seen to have reached the group before.
    arrived: Vec<(c_int, BootTime)>,
    reminder: Option<Reminder>,
}

/// A signal that asked the job to end, for those of its processes that have not had it.
#[derive(Clone, Copy)]
pub struct Reminder {
    pub signal: c_int,
    /// The process group has had it, not the command alone.
    pub reached_group: bool,
    at: BootTime,
}

impl Relay {
    pub fn add(&mut self, signal: c_int) {
        self.arrived.push((signal, BootTime::after(PAUSE)));
    }

    /// Takes a signal of which it is known whether it reached the process group.
    pub fn take(&mut self, has_reached_group: impl Fn(c_int) -> bool) -> Option<(c_int, bool)> {
        let mut known = self.arrived.iter().enumerate().filter_map(|(index, (signal, at))| {
            let reached_group = has_reached_group(*signal);
            (reached_group || at.has_passed()).then_some((index, *signal, reached_group))
        });
        let (index, signal, reached_group) = known.next()?;
        self.arrived.remove(index);
        Some((signal, reached_group))
    }

    /// The first signal that asks to end counts: the rest of the job gets it, too, when this time has passed.
    pub fn remind_after(&mut self, time: Duration, signal: c_int, reached_group: bool) {
        self.reminder.get_or_insert(Reminder { signal, reached_group, at: BootTime::after(time) });
    }

    pub fn take_reminder(&mut self) -> Option<Reminder> {
        self.reminder.take_if(|reminder| reminder.at.has_passed())
    }

    /// When there is something to take at the latest.
    pub fn next(&self) -> Option<BootTime> {
        let reminder = self.reminder.iter().map(|reminder| reminder.at);
        self.arrived.iter().map(|(_, at)| *at).chain(reminder).min()
    }
}
