//! The job as redlock sees it: start, wait, and requests to the guard.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::descendants::OwnChildren;
use super::guard::{LeftoverPolicy, fork_guard};
use super::kill::kill_all;
use super::protocol::{Channel, ExitStatus, GuardReport, GuardRequest, JobEnd};
use super::signals::{Arrived, Signals};
use super::spawn::CommandLine;
use super::{descendants, dispositions};
use crate::clock::{BootTime, Deadline};

/// The command and every process it starts, under a guard.
pub struct Job {
    channel: Channel,
    guard: Pid,
    children: OwnChildren,
    kill_after: Duration,
    command: Option<i32>,
    /// How the command ended, when that was before the job's end.
    command_end: Option<ExitStatus>,
    /// When the guard has to stop the job, in nanoseconds on the boot clock.
    stop_at: Arc<AtomicU64>,
    /// From then on: when to look at the guard, and whether it was found stopped before.
    look_at: BootTime,
    was_stopped: bool,
}

/// What happened next.
#[derive(Debug)]
pub enum JobEvent {
    Signal(Arrived),
    /// The command ended so and left processes behind, which are being awaited or stopped.
    CommandEnded(ExitStatus),
    /// The job's end. Where the guard was lost, redlock killed the job.
    JobEnd {
        ended: JobEnd,
        guard_lost: Option<GuardLoss>,
    },
    TimeUp,
}

/// What became of a guard that could not end the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardLoss {
    /// Somebody killed it.
    Killed,
    /// Somebody stopped it, again and again.
    Stopped,
}

/// Between two looks at a guard that is due to stop the job.
const LOOK: Duration = Duration::from_millis(10);

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
    pub fn prepare(command: CommandLine, kill_after: Duration, leftovers: LeftoverPolicy) -> io::Result<Job> {
        let (guard, channel, children) = fork_guard(command, kill_after, leftovers)?;
        Ok(Job {
            channel,
            guard,
            children,
            kill_after,
            command: None,
            command_end: None,
            stop_at: Arc::new(AtomicU64::new(u64::MAX)),
            look_at: BootTime::from_nanos(0),
            was_stopped: false,
        })
    }

    pub fn guard_pid(&self) -> u32 {
        self.guard.as_raw() as u32
    }

    /// Whether the guard was killed before the start of the command.
    pub fn has_lost_guard(&self) -> bool {
        self.poll_channel(BootTime::now()) == Ok(1)
    }

    /// Waits for a report, at most until `end`.
    fn poll_channel(&self, end: Deadline) -> nix::Result<i32> {
        poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], end.poll_timeout())
    }

    /// Starts the command, or nothing after `start_by`. All of the job is dead at `deadline`, unless that is
    /// extended in time.
    pub fn start(
        &mut self,
        env: Vec<(String, String)>,
        start_by: Deadline,
        deadline: Option<Deadline>,
    ) -> Result<(), NotStarted> {
        self.stop_at.store(start_by.as_nanos(), Ordering::Relaxed);
        let request = GuardRequest::Start {
            env,
            start_by: start_by.as_nanos(),
            deadline: deadline.map(BootTime::as_nanos),
        };
        if self.channel.send_long(&request) == Err(Errno::EMSGSIZE) {
            // execve(2) takes less than the line to the guard.
            return Err(NotStarted::NotExecutable(io::Error::from(Errno::E2BIG).to_string()));
        }
        while self.poll_channel(self.next_look().unwrap_or(Deadline::NEVER)) == Ok(0) {
            // A guard that somebody stopped may have started the command, whose time is over now.
            if self.look_at_guard().is_some() {
                self.kill_without_guard();
                return Err(NotStarted::NoGuard);
            }
        }
        let stop_at = deadline.map_or(u64::MAX, |deadline| deadline.minus(self.kill_after).as_nanos());
        self.stop_at.store(stop_at, Ordering::Relaxed);
        match self.channel.receive() {
            Some(GuardReport::Started { pid }) => {
                self.command = Some(pid);
                // Redlock's own messages go to stderr.
                dispositions::detach_streams(true);
                Ok(())
            }
            Some(GuardReport::NotStarted { errno: libc::ENOENT, .. }) => Err(NotStarted::NotFound),
            Some(GuardReport::NotStarted { message, .. }) => Err(NotStarted::NotExecutable(message)),
            Some(GuardReport::TooLate) => Err(NotStarted::TooLate),
            Some(GuardReport::CommandEnded(_) | GuardReport::JobEnd(_)) | None => {
                // The guard may have started the command, which survives the guard if it is a set-user-ID program.
                self.kill_without_guard();
                Err(NotStarted::NoGuard)
            }
        }
    }

    /// A handle for telling the guard from another thread.
    pub fn control(&self) -> io::Result<JobControl> {
        let channel = Arc::new(self.channel.try_clone()?);
        Ok(JobControl {
            channel,
            guard: self.guard,
            kill_after: self.kill_after,
            stop_at: Arc::clone(&self.stop_at),
        })
    }

    /// Waits for a signal, the job's end, or `until`.
    pub fn next(&mut self, signals: &mut Signals, until: Option<Deadline>) -> JobEvent {
        loop {
            if let Some(arrived) = signals.take() {
                return JobEvent::Signal(arrived);
            }
            if let Some(guard_lost) = self.look_at_guard() {
                return JobEvent::JobEnd { ended: self.kill_without_guard(), guard_lost: Some(guard_lost) };
            }
            if until.is_some_and(Deadline::has_passed) {
                return JobEvent::TimeUp;
            }
            let next = until.into_iter().chain(self.next_look()).min();
            let timeout = next.map_or(PollTimeout::NONE, Deadline::poll_timeout);
            let watched = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = [watched(signals.as_fd()), watched(self.channel.as_fd())];
            let _ = poll(&mut fds, timeout);
            if fds[1].any().unwrap_or(false) {
                match self.channel.receive() {
                    Some(GuardReport::JobEnd(ended)) => return JobEvent::JobEnd { ended, guard_lost: None },
                    Some(GuardReport::CommandEnded(status)) => {
                        self.command_end = Some(status);
                        return JobEvent::CommandEnded(status);
                    }
                    Some(_) => {}
                    None => {
                        let guard_lost = Some(GuardLoss::Killed);
                        return JobEvent::JobEnd { ended: self.kill_without_guard(), guard_lost };
                    }
                }
            }
        }
    }

    fn next_look(&self) -> Option<BootTime> {
        let stop_at = self.stop_at.load(Ordering::Relaxed);
        (stop_at != u64::MAX).then(|| self.look_at.max(BootTime::from_nanos(stop_at)))
    }

    /// Wakes a guard that is stopped when it should stop the job; gives it up when it is stopped again.
    fn look_at_guard(&mut self) -> Option<GuardLoss> {
        if !self.next_look().is_some_and(Deadline::has_passed) {
            return None;
        }
        self.look_at = BootTime::after(LOOK);
        let is_stopped = descendants::is_stopped(self.guard.as_raw());
        if is_stopped && self.was_stopped {
            return Some(GuardLoss::Stopped);
        }
        if is_stopped {
            descendants::send(self.guard.as_raw(), libc::SIGCONT);
        }
        self.was_stopped |= is_stopped;
        None
    }

    /// The guard is dead, or dies with the job. Its orphans are redlock's children now; none may live on unguarded.
    fn kill_without_guard(&self) -> JobEnd {
        let command = self.command.and_then(descendants::reap_one);
        dispositions::set_ignored(libc::SIGCHLD, true);
        kill_all(&self.children);
        let end = self.command_end.or(command);
        JobEnd {
            status: end.unwrap_or(ExitStatus::Signaled(libc::SIGKILL)),
            expired: false,
            leftovers: false,
        }
    }
}

impl Drop for Job {
    /// Reaps the guard: where PID 1 reaps its own children only, as in many containers, it would stay a zombie.
    fn drop(&mut self) {
        descendants::send(self.guard.as_raw(), libc::SIGKILL);
        let _ = waitpid(self.guard, None);
    }
}

impl AsFd for Job {
    /// Readable before the start of the command when the guard is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Sends requests to the guard from any thread. A request wakes a guard that somebody stopped.
#[derive(Clone, Debug)]
pub struct JobControl {
    channel: Arc<Channel>,
    guard: Pid,
    kill_after: Duration,
    stop_at: Arc<AtomicU64>,
}

impl JobControl {
    /// Moves the deadline.
    pub fn extend(&self, deadline: Deadline) {
        self.stop_at.store(deadline.minus(self.kill_after).as_nanos(), Ordering::Relaxed);
        self.request(&GuardRequest::Extend { deadline: deadline.as_nanos() });
    }

    /// Passes a signal to the whole job, and wakes what is stopped.
    pub fn signal(&self, signal: i32) {
        self.request(&GuardRequest::Signal(signal));
    }

    /// Passes a signal to what left the caller's process group, and wakes what is stopped of it.
    pub fn signal_outside(&self, signal: i32) {
        self.request(&GuardRequest::SignalOutside(signal));
    }

    /// Passes a signal to the command alone.
    pub fn signal_command(&self, signal: i32) {
        self.request(&GuardRequest::SignalCommand(signal));
    }

    /// Ends the whole job: SIGTERM now, SIGKILL at `kill_at`.
    pub fn stop(&self, kill_at: Deadline) {
        self.stop_at.store(BootTime::now().as_nanos(), Ordering::Relaxed);
        self.request(&GuardRequest::Stop { kill_at: kill_at.as_nanos() });
    }

    pub fn kill(&self) {
        self.stop_at.store(BootTime::now().as_nanos(), Ordering::Relaxed);
        self.request(&GuardRequest::Kill);
    }

    /// A request is lost if the guard's buffer is full: then the guard has been stopped for long, and redlock ends the job itself
    /// when it is due.
    fn request(&self, request: &GuardRequest) {
        self.channel.offer(request);
        descendants::send(self.guard.as_raw(), libc::SIGCONT);
    }
}
