//! The start of a job: what the guard makes of redlock's request, or the reason why nothing was started.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;

use super::guarded_job::{Job, LOOK};
use super::protocol::{GuardReport, GuardRequest};
use super::signals::Signals;
use super::streams;
use crate::clock::Deadline;
use crate::poll::wait_readable;

/// The time for the start after a signal. A command that starts in this time gets the signal; one whose execution hangs, as
/// on a file server that does not answer, is given up.
const START: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub enum NotStarted {
    NotFound,
    /// It cannot be executed, and why.
    NotExecutable(String),
    /// The system, or a limit, has no room for another process, and why.
    NoRoom(String),
    /// Somebody killed the process that was to become the command.
    ProcessKilled,
    /// The lease had ended. A command that had begun, or may have, was killed.
    TooLate {
        has_begun: bool,
    },
    /// This signal came, and the execution of the command hung.
    Interrupted(i32),
}

impl Job {
    /// Starts the command under a lease that ends then, or nothing when too little of that is left. A signal may end a
    /// start that hangs. A job that `ends_in_time` is dead when the lease ends, unless that is extended.
    pub fn start(
        &mut self,
        env: Vec<(String, String)>,
        lease_end: Deadline,
        ends_in_time: bool,
        signals: Option<&mut Signals>,
    ) -> Result<(), NotStarted> {
        let deadlines = self.reserve.before(lease_end);
        self.guard.set_stop_at(Some(deadlines.stop));
        let request = GuardRequest::Start { env, deadlines, ends_in_time };
        if self.channel.send_long(&request) == Err(Errno::EMSGSIZE) {
            // execve(2) takes less than the line to the guard.
            return Err(NotStarted::NotExecutable(io::Error::from(Errno::E2BIG).to_string()));
        }
        self.await_start(signals)?;
        if !ends_in_time {
            self.guard.set_stop_at(None);
        }
        match self.channel.receive() {
            Some(GuardReport::Started { pid, watchdog }) => {
                (self.command, self.watchdog) = (Some(pid), watchdog);
                // Redlock's own messages go to stderr.
                streams::detach(true);
                Ok(())
            }
            Some(GuardReport::NotStarted { errno: libc::ENOENT, .. }) => Err(NotStarted::NotFound),
            Some(GuardReport::NotStarted {
                errno: libc::EAGAIN | libc::ENOMEM | libc::ENFILE | libc::EMFILE,
                message,
            }) => Err(NotStarted::NoRoom(message)),
            Some(GuardReport::NotStarted { message, .. }) => Err(NotStarted::NotExecutable(message)),
            Some(GuardReport::ProcessKilled) => Err(NotStarted::ProcessKilled),
            Some(GuardReport::TooLate { has_begun }) => Err(NotStarted::TooLate { has_begun }),
            // The guard was killed, and may have started the command: its loss is seen as that of a job that runs.
            Some(GuardReport::CommandEnded(_) | GuardReport::JobEnd(_)) | None => Ok(()),
        }
    }

    /// Waits until the guard says what became of the start.
    fn await_start(&mut self, mut signals: Option<&mut Signals>) -> Result<(), NotStarted> {
        let mut give_up_at = Deadline::NEVER;
        loop {
            let until = self.next_look().unwrap_or(Deadline::NEVER).min(give_up_at);
            let signal = signals.as_ref().map_or(self.as_fd(), |signals| signals.as_fd());
            let fds = [self.as_fd(), signal, self.end_notice.as_fd()];
            let [has_answered, _, has_ended] = wait_readable(fds, until);
            if has_answered {
                return Ok(());
            }
            if has_ended {
                // Somebody may have stopped the guard before it could tell of the start.
                self.guard.send(libc::SIGCONT);
                wait_readable([self.as_fd()], Deadline::after(LOOK));
            }
            // A guard that somebody stopped may have started the command, whose time has passed.
            if self.look_at_guard().is_some() {
                self.kill_without_guard();
                return Err(NotStarted::TooLate { has_begun: true });
            }
            let Some(signal) = signals.as_mut().and_then(|signals| signals.first_for_redlock()) else {
                continue;
            };
            if give_up_at.has_passed() {
                self.kill_without_guard();
                return Err(NotStarted::Interrupted(signal));
            }
            give_up_at = give_up_at.min(Deadline::after(START));
        }
    }
}
