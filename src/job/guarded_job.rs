//! The job as redlock sees it: start, wait, and requests to the guard.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::deadlines::Reserve;
use super::descendants::OwnChildren;
use super::guard::fork_guard;
use super::kill::{kill_all, kill_below};
use super::protocol::{Channel, ExitStatus, GuardReport, GuardRequest, JobEnd, LeftoverPolicy};
use super::signals::{Arrived, Signals};
use super::watchdog::is_watchdog;
use super::{descendants, dispositions, title};
use crate::clock::{BootTime, Deadline};
use crate::poll::{is_readable, wait_readable};

/// The command and every process it starts, under a guard.
pub struct Job {
    channel: Channel,
    guard: Arc<GuardProcess>,
    children: OwnChildren,
    reserve: Reserve,
    command: Option<i32>,
    watchdog: Option<i32>,
    /// How the command ended, when that was before the job's end.
    command_end: Option<ExitStatus>,
    /// When the guard is due to stop the job: when to look at it, and whether it was found stopped before.
    look_at: BootTime,
    was_stopped: bool,
    was_frozen: bool,
    /// The guard ends by itself: it has said all, and waits for the command's parent.
    is_over: bool,
}

/// The guard as each thread knows it.
#[derive(Debug)]
struct GuardProcess {
    /// None once it was reaped: the pid may be another's.
    pid: AtomicI32,
    /// When it has to stop the job, in nanoseconds on the boot clock.
    stop_at: AtomicU64,
}

/// In the place of a time.
const NEVER: u64 = u64::MAX;
/// In the place of a pid.
const REAPED: i32 = 0;

pub enum JobEvent {
    /// A signal came to redlock.
    Signal(Arrived),
    /// The command ended so and left processes behind, which are being awaited or stopped.
    CommandEnded(ExitStatus),
    /// The job's end. Where the guard was lost, redlock killed the job.
    JobEnd { ended: JobEnd, guard_lost: Option<GuardLoss> },
    /// It is the time until which to wait.
    TimeUp,
}

/// What became of a guard that could not end the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardLoss {
    Killed,
    /// Somebody stopped it, again and again, or froze its cgroup.
    Stopped,
}

/// Between two looks at a guard that is due to stop the job.
const LOOK: Duration = Duration::from_millis(10);
/// Before the deadline, and after the guard was due to kill the job: there is no more time to wait for a thaw.
const LAST_LOOK: Duration = Duration::from_millis(100);
/// For a command whose execution hangs, as on a file server that does not answer, when a signal has come. Another one starts
/// in this time, and gets the signal.
const START: Duration = Duration::from_secs(1);

/// For a guard that ends by itself.
const LAST_WORK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub enum NotStarted {
    NotFound,
    /// It cannot be executed, and why.
    NotExecutable(String),
    /// The system, or a limit, has no room for another process, and why.
    NoRoom(String),
    /// Somebody killed the process that was to become the command.
    ProcessKilled,
    /// The lease was over. A command that had begun, or may have, was killed.
    TooLate {
        has_begun: bool,
    },
    /// This signal came, and the execution of the command hung.
    Interrupted(i32),
}

impl Job {
    /// Makes the guard. To be called before any thread is started.
    ///
    /// The job is stopped and killed in the `reserve` of its lease. Leftovers have its `kill_after`, too.
    pub fn prepare(command: Vec<OsString>, reserve: Reserve, leftovers: LeftoverPolicy) -> io::Result<Job> {
        title::hide(&command);
        let (guard, channel, children) = fork_guard(command, reserve.kill_after, leftovers)?;
        let guard = GuardProcess { pid: AtomicI32::new(guard.as_raw()), stop_at: AtomicU64::new(NEVER) };
        Ok(Job {
            channel,
            guard: Arc::new(guard),
            children,
            reserve,
            command: None,
            watchdog: None,
            command_end: None,
            look_at: BootTime::from_nanos(0),
            was_stopped: false,
            was_frozen: false,
            is_over: false,
        })
    }

    /// Of a guard that is there.
    pub fn guard_pid(&self) -> u32 {
        self.guard.pid() as u32
    }

    /// Whether the guard was killed before the start of the command.
    pub fn has_lost_guard(&self) -> bool {
        is_readable(self.as_fd())
    }

    /// A child of this process that is none of the job: it stays when the job is killed here.
    pub(super) fn leave_out(&self, pid: i32) {
        self.children.leave_out(pid);
    }

    /// Starts the command under a lease that ends then, or nothing when too little of that is left. A signal may end a start
    /// that hangs. A job that `ends_in_time` is dead when the lease ends, unless that is extended.
    pub fn start(
        &mut self,
        env: Vec<(String, String)>,
        lease_end: Deadline,
        ends_in_time: bool,
        signals: Option<&mut Signals>,
    ) -> Result<(), NotStarted> {
        let deadlines = self.reserve.before(lease_end);
        self.guard.stop_at.store(deadlines.stop.as_nanos(), Ordering::Relaxed);
        let request = GuardRequest::Start { env, deadlines, ends_in_time };
        if self.channel.send_long(&request) == Err(Errno::EMSGSIZE) {
            // execve(2) takes less than the line to the guard.
            return Err(NotStarted::NotExecutable(io::Error::from(Errno::E2BIG).to_string()));
        }
        self.await_start(signals)?;
        if !ends_in_time {
            self.guard.stop_at.store(NEVER, Ordering::Relaxed);
        }
        match self.channel.receive() {
            Some(GuardReport::Started { pid, watchdog }) => {
                (self.command, self.watchdog) = (Some(pid), watchdog);
                // Redlock's own messages go to stderr.
                dispositions::detach_streams(true);
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
            if wait_readable([self.as_fd(), signal], until)[0] {
                return Ok(());
            }
            // A guard that somebody stopped may have started the command, whose time is over now.
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

    /// A handle with which another thread sends requests to the guard.
    pub fn control(&self) -> io::Result<JobControl> {
        let (channel, guard) = (Arc::new(self.channel.try_clone()?), Arc::clone(&self.guard));
        Ok(JobControl { channel, guard, reserve: self.reserve })
    }

    pub fn next(&mut self, signals: &mut Signals, until: Option<Deadline>) -> JobEvent {
        loop {
            if let Some(arrived) = signals.take() {
                return JobEvent::Signal(arrived);
            }
            if let Some(event) = self.take() {
                return event;
            }
            if until.is_some_and(Deadline::has_passed) {
                return JobEvent::TimeUp;
            }
            let next = until.into_iter().chain(self.next_look()).min().unwrap_or(Deadline::NEVER);
            wait_readable([signals.as_fd(), self.as_fd()], next);
        }
    }

    /// What has happened to the job meanwhile, if anything has.
    pub fn take(&mut self) -> Option<JobEvent> {
        let guard_lost = match self.look_at_guard() {
            None if !is_readable(self.as_fd()) => return None,
            None => match self.channel.receive() {
                Some(GuardReport::JobEnd(ended)) => {
                    self.is_over = !ended.leftovers;
                    return Some(JobEvent::JobEnd { ended, guard_lost: None });
                }
                Some(GuardReport::CommandEnded(status)) => {
                    self.command_end = Some(status);
                    return Some(JobEvent::CommandEnded(status));
                }
                Some(_) => return None,
                None => GuardLoss::Killed,
            },
            Some(guard_lost) => guard_lost,
        };
        Some(JobEvent::JobEnd { ended: self.kill_without_guard(), guard_lost: Some(guard_lost) })
    }

    /// The pid and the name of a process that the command left behind.
    pub fn leftover(&self) -> Option<(i32, String)> {
        let named = |pid: i32| Some((pid, descendants::name_of(pid)?));
        let children = descendants::children_of(self.guard.pid()).into_iter();
        children.filter(|pid| Some(*pid) != self.watchdog).find_map(named)
    }

    /// When to look at the guard again, which is due to stop the job.
    pub fn next_look(&self) -> Option<BootTime> {
        let stop_at = self.guard.stop_at.load(Ordering::Relaxed);
        (stop_at != NEVER).then(|| self.look_at.max(BootTime::from_nanos(stop_at)))
    }

    /// Wakes a guard that is stopped when it should stop the job; gives it up when it is stopped again.
    fn look_at_guard(&mut self) -> Option<GuardLoss> {
        if !self.next_look().is_some_and(Deadline::has_passed) {
            return None;
        }
        self.look_at = BootTime::after(LOOK);
        let stop_at = BootTime::from_nanos(self.guard.stop_at.load(Ordering::Relaxed));
        let is_frozen = stop_at.plus(self.reserve.length()).minus(LAST_LOOK).has_passed()
            && descendants::is_frozen(self.guard.pid());
        if is_frozen && self.was_frozen {
            self.kill_below_guard();
            return Some(GuardLoss::Stopped);
        }
        self.was_frozen = is_frozen;
        let is_stopped = descendants::is_stopped(self.guard.pid());
        if is_stopped && self.was_stopped {
            return Some(GuardLoss::Stopped);
        }
        if is_stopped {
            self.guard.send(libc::SIGCONT);
        }
        self.was_stopped |= is_stopped;
        None
    }

    /// The guard is frozen, and stays the parent of the job.
    fn kill_below_guard(&self) {
        let guard = self.guard.pid();
        kill_below(guard);
        // It dies when it is thawed, and nobody waits for that.
        self.guard.send(libc::SIGKILL);
        self.children.leave_out(guard);
        self.guard.pid.store(REAPED, Ordering::Relaxed);
    }

    /// The guard is dead, or dies with the job. Its orphans are redlock's children now; none may live on unguarded.
    fn kill_without_guard(&self) -> JobEnd {
        let command = self.command.and_then(descendants::reap_one);
        dispositions::set_ignored(libc::SIGCHLD, true);
        kill_all(&self.children);
        self.guard.pid.store(REAPED, Ordering::Relaxed);
        // Others are still waited for.
        dispositions::set_ignored(libc::SIGCHLD, false);
        let status = self.command_end.or(command).unwrap_or(ExitStatus::Signaled(libc::SIGKILL));
        JobEnd { status, expired: false, leftovers: false }
    }
}

impl Drop for Job {
    /// Reaps the guard: where PID 1 reaps its own children only, as in many containers, it would stay a zombie. The
    /// watchdog ends with the guard, and becomes a child of this process.
    fn drop(&mut self) {
        if self.command.is_none() && is_readable(self.as_fd()) {
            // Somebody killed the guard. The processes that it made ahead are ours now.
            self.kill_without_guard();
        }
        if self.guard.pid() != REAPED {
            if self.command.is_none() || self.is_over {
                // It ends the processes that it made ahead, if nothing was started, and itself. What the command used of the
                // processor counts for the caller when each process has waited for the next one.
                self.channel.hang_up();
                self.guard.send(libc::SIGCONT);
                wait_readable([self.as_fd()], Deadline::after(LAST_WORK));
            }
            self.guard.send(libc::SIGKILL);
            let _ = waitpid(Pid::from_raw(self.guard.pid()), None);
        }
        if let Some(pid) = self.watchdog.filter(|pid| is_watchdog(*pid)) {
            let _ = waitpid(Pid::from_raw(pid), None);
        }
    }
}

impl GuardProcess {
    fn pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    fn send(&self, signal: i32) {
        let pid = self.pid();
        if pid != REAPED {
            descendants::send(pid, signal);
        }
    }

    /// A job without a deadline gets none.
    fn extend(&self, stop_at: Deadline) {
        let set = |known| (known != NEVER).then_some(stop_at.as_nanos());
        let _ = self.stop_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
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
    guard: Arc<GuardProcess>,
    reserve: Reserve,
}

impl JobControl {
    /// The lease was extended, and ends then.
    pub fn extend(&self, lease_end: Deadline) {
        self.request(&GuardRequest::Extend(self.reserve.before(lease_end)));
    }

    /// Has the whole job stopped, and killed after the time that the options name.
    pub fn stop(&self) {
        self.request(&GuardRequest::Stop { kill_at: Deadline::after(self.reserve.kill_after) });
    }

    /// A request is lost if the guard's buffer is full: then the guard has been stopped for long, and redlock ends the job itself
    /// when it is due.
    pub fn request(&self, request: &GuardRequest) {
        match request {
            GuardRequest::Extend(deadlines) => self.guard.extend(deadlines.stop),
            GuardRequest::Stop { .. } | GuardRequest::Kill => {
                self.guard.stop_at.store(BootTime::now().as_nanos(), Ordering::Relaxed);
            }
            _ => {}
        }
        // Before the request: whoever sees what that does, and stops the guard then, finds it stopped.
        self.guard.send(libc::SIGCONT);
        self.channel.offer(request);
    }
}
