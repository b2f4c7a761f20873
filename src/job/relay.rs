//! Passes the signals that came to redlock on to the job, to each process once.
//!
//! A signal for the whole process group, as of `kill -- -PGID`, reaches the job without redlock's help, and siginfo_t does
//! not tell it from one for redlock alone. The command's parent tells: it is in the group, and blocks all signals.

use std::ffi::c_int;
use std::time::Duration;

use nix::unistd::Pid;

use super::command_parent::CommandParent;
use super::descendants::{OwnChildren, is_outside, signal_where};
use super::process::{send, send_and_wake};
use crate::clock::{BootTime, Deadline};

/// timeout(1) signals its child first, and its process group right after that.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Default)]
pub struct Relay {
    /// Each with the time at which to pass it on, unless it is seen to have reached the group before.
    arrived: Vec<(c_int, BootTime)>,
    reminder: Option<Reminder>,
}

/// A signal that asked the job to end, for those of its processes that have not had it.
struct Reminder {
    signal: c_int,
    /// The process group has had it, not the command alone.
    reached_group: bool,
    at: BootTime,
}

/// The processes that a signal may be for.
pub struct Receivers<'a> {
    pub parent: &'a CommandParent,
    /// Unless it has ended.
    pub command: Option<i32>,
    /// The caller's process group.
    pub group: Pid,
    pub children: &'a OwnChildren,
    /// Later there is something else to do.
    pub until: Deadline,
}

impl Relay {
    /// A signal has come to redlock.
    pub fn add(&mut self, signal: c_int) {
        self.arrived.push((signal, BootTime::after(PAUSE)));
    }

    /// Passes on the signals of which it is known whether they came to redlock alone. The first one that asks the job to end
    /// goes to the rest of it when `kill_after` has passed.
    pub fn pass_on(&mut self, to: &Receivers, kill_after: Duration) {
        while let Some((signal, reached_group)) = self.take(|signal| to.parent.has_reached_group(signal)) {
            to.parent.take(signal);
            let asks_to_end = matches!(signal, libc::SIGINT | libc::SIGTERM);
            match to.command {
                Some(_) if reached_group => {}
                Some(command) if asks_to_end => send_and_wake(command, signal),
                Some(command) => _ = send(command, signal),
                None => to.signal(signal, |_, is_outside| is_outside || !reached_group),
            }
            if asks_to_end {
                self.reminder.get_or_insert(Reminder {
                    signal,
                    reached_group,
                    at: BootTime::after(kill_after),
                });
            }
        }
        if let Some(Reminder { signal, reached_group, .. }) =
            self.reminder.take_if(|reminder| reminder.at.has_passed())
        {
            to.signal(signal, |pid, is_outside| Some(pid) != to.command && (is_outside || !reached_group));
        }
    }

    /// All processes of the job have been asked to end.
    pub fn forget_reminder(&mut self) {
        self.reminder = None;
    }

    fn take(&mut self, has_reached_group: impl Fn(c_int) -> bool) -> Option<(c_int, bool)> {
        let mut known = self.arrived.iter().enumerate().filter_map(|(index, (signal, at))| {
            let reached_group = has_reached_group(*signal);
            (reached_group || at.has_passed()).then_some((index, *signal, reached_group))
        });
        let (index, signal, reached_group) = known.next()?;
        self.arrived.remove(index);
        Some((signal, reached_group))
    }

    /// When there is something to pass on at the latest.
    pub fn next(&self) -> Option<BootTime> {
        let reminder = self.reminder.iter().map(|reminder| reminder.at);
        self.arrived.iter().map(|(_, at)| *at).chain(reminder).min()
    }
}

impl Receivers<'_> {
    /// The terminal has sent a signal to the group: the others get it, too.
    pub fn signal_outside(&self, signal: c_int) {
        self.parent.take(signal);
        self.signal(signal, |_, is_outside| is_outside);
    }

    /// Sends a signal to those that are meant, by their pid and whether they left the caller's process group. For the
    /// command's parent it would count as one to the group.
    pub fn signal(&self, signal: c_int, is_meant: impl Fn(i32, bool) -> bool) {
        let is_meant = |pid| pid != self.parent.pid && is_meant(pid, is_outside(self.group, pid));
        signal_where(self.children, self.command, signal, self.until, is_meant);
    }
}
