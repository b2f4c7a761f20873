use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::command::CommandLine;
use super::guard::{Leftovers, fork_guard};
use super::killing::kill_all;
use super::signals::{Arrived, Signals};
use super::wire::{Ended, Line, Order, Report, Status};
use super::{inherited, tree};
use crate::clock::{BootTime, Deadline};

/// The command and every process it starts, under a guard.
pub struct Job {
    line: Line,
    guard: Pid,
    command: Option<i32>,
    /// How the command ended, when that was before the job's end.
    command_end: Option<Status>,
}

/// What happened next.
#[derive(Debug)]
pub enum Event {
    Signal(Arrived),
    /// The command ended and left processes behind, which are being awaited or stopped.
    CommandEnded,
    /// The job's end. With `guard_lost` the guard was killed, and redlock killed the job.
    Ended {
        ended: Ended,
        guard_lost: bool,
    },
    TimeUp,
}

/// Why the command did not start.
#[derive(Debug)]
pub enum NotStarted {
    /// There is no such command.
    NotFound,
    /// It cannot be executed, and why.
    NotExecutable(String),
    /// It would have started too late.
    TooLate,
    /// The guard is gone.
    NoGuard,
}

impl Job {
    /// Makes the guard. To be called before any thread is started.
    ///
    /// `kill_after` is the time between SIGTERM and SIGKILL when the deadline comes near, and for leftovers.
    pub fn prepare(command: CommandLine, kill_after: Duration, leftovers: Leftovers) -> io::Result<Job> {
        let (guard, line) = fork_guard(command, kill_after, leftovers)?;
        Ok(Job { line, guard, command: None, command_end: None })
    }

    pub fn guard_pid(&self) -> u32 {
        self.guard.as_raw() as u32
    }

    /// Starts the command, or nothing after `start_by`. All of the job is dead at `deadline`, unless that is
    /// extended in time.
    pub fn start(
        &mut self,
        env: Vec<(String, String)>,
        start_by: Deadline,
        deadline: Option<Deadline>,
    ) -> Result<(), NotStarted> {
        let deadline = deadline.map(BootTime::as_nanos);
        let order = Order::Start { env, start_by: start_by.as_nanos(), deadline };
        if self.line.send_long(&order) == Err(Errno::EMSGSIZE) {
            // execve(2) takes less than the line to the guard.
            return Err(NotStarted::NotExecutable(io::Error::from(Errno::E2BIG).to_string()));
        }
        match self.line.receive() {
            Some(Report::Started { pid }) => {
                self.command = Some(pid);
                // What redlock has to say goes to stderr.
                inherited::let_go_of_streams(true);
                Ok(())
            }
            Some(Report::NotStarted { errno: libc::ENOENT, .. }) => Err(NotStarted::NotFound),
            Some(Report::NotStarted { message, .. }) => Err(NotStarted::NotExecutable(message)),
            Some(Report::TooLate) => Err(NotStarted::TooLate),
            Some(Report::CommandEnded(_) | Report::Ended(_)) | None => Err(NotStarted::NoGuard),
        }
    }

    /// A handle for telling the guard from another thread.
    pub fn control(&self) -> io::Result<Control> {
        Ok(Control(Arc::new(self.line.try_clone()?)))
    }

    /// Waits for a signal, the job's end, or `until`.
    pub fn next(&mut self, signals: &mut Signals, until: Option<Deadline>) -> Event {
        loop {
            if let Some(arrived) = signals.next() {
                return Event::Signal(arrived);
            }
            let timeout = match until {
                Some(until) if until.has_passed() => return Event::TimeUp,
                Some(until) => until.poll_timeout(),
                None => PollTimeout::NONE,
            };
            let watched = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = [watched(signals.as_fd()), watched(self.line.as_fd())];
            let _ = poll(&mut fds, timeout);
            if fds[1].any().unwrap_or(false) {
                match self.line.receive() {
                    Some(Report::Ended(ended)) => return Event::Ended { ended, guard_lost: false },
                    Some(Report::CommandEnded(status)) => {
                        self.command_end = Some(status);
                        return Event::CommandEnded;
                    }
                    Some(_) => {}
                    None => return Event::Ended { ended: self.kill_without_guard(), guard_lost: true },
                }
            }
        }
    }

    /// The guard is dead: its orphans are ours now, and none may live on unguarded.
    fn kill_without_guard(&self) -> Ended {
        let command = self.command.and_then(tree::reap_one);
        inherited::set_ignored(libc::SIGCHLD, true);
        kill_all();
        let end = self.command_end.or(command);
        Ended { status: end.unwrap_or(Status::Signaled(libc::SIGKILL)), expired: false, leftovers: false }
    }
}

/// Tells the guard what to do with the job.
#[derive(Clone, Debug)]
pub struct Control(Arc<Line>);

impl Control {
    /// Moves the deadline.
    pub fn extend(&self, deadline: Deadline) {
        self.0.offer(&Order::Extend { deadline: deadline.as_nanos() });
    }

    /// Passes a signal to the whole job, and wakes what is stopped.
    pub fn signal(&self, signal: i32) {
        self.0.send(&Order::Signal(signal));
    }

    /// Passes a signal to what left the caller's process group, and wakes what is stopped of it.
    pub fn signal_outside(&self, signal: i32) {
        self.0.send(&Order::SignalOutside(signal));
    }

    /// Passes a signal to the command alone.
    pub fn signal_command(&self, signal: i32) {
        self.0.send(&Order::SignalCommand(signal));
    }

    /// Ends the whole job: SIGTERM now, SIGKILL at `kill_at`.
    pub fn stop(&self, kill_at: Deadline) {
        self.0.send(&Order::Stop { kill_at: kill_at.as_nanos() });
    }

    pub fn kill(&self) {
        self.0.send(&Order::Kill);
    }
}
