//! The job as redlock sees it: its start and its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::deadlines::Reserve;
use super::descendants::OwnChildren;
use super::end_notice::EndNotice;
use super::guard::fork_guard;
use super::guard_process::GuardProcess;
use super::job_control::JobControl;
use super::kill::{kill_all, kill_below};
use super::protocol::{Channel, ExitStatus, GuardReport, JobEnd, LeftoverPolicy};
use super::signals::{Arrived, Signals};
use super::watchdog::is_watchdog;
use super::{descendants, dispositions, process, title};
use crate::clock::{BootTime, Deadline};
use crate::poll::{is_readable, wait_readable};

/// The command and every process it starts, under a guard.
pub struct Job {
    pub(super) channel: Channel,
    pub(super) guard: Arc<GuardProcess>,
    pub(super) end_notice: EndNotice,
    children: OwnChildren,
    pub(super) reserve: Reserve,
    pub(super) command: Option<i32>,
    pub(super) watchdog: Option<i32>,
    /// The end of the command, when that was before the job's end.
    command_end: Option<ExitStatus>,
    /// When the guard is due to stop the job: when to look at it, and whether it was found stopped before.
    look_at: BootTime,
    was_stopped: bool,
    was_frozen: bool,
    /// The guard ends by itself: it has said all, and waits for the command's parent.
    is_over: bool,
    /// The job's end is known, and the guard has not confirmed it.
    is_unconfirmed: bool,
}

pub enum JobEvent {
    /// A signal came to redlock.
    Signal(Arrived),
    /// The command ended and left processes behind, which are awaited or stopped.
    CommandEnded(ExitStatus),
    /// The job's end. Where the guard was lost, redlock killed the job.
    JobEnd { ended: JobEnd, guard_lost: Option<GuardLoss> },
    /// The time has come until which to wait.
    TimeUp,
}

/// The fate of a guard that could not end the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardLoss {
    Killed,
    /// Somebody stopped it, again and again, or froze its cgroup.
    Stopped,
}

/// The pause between two looks at a guard that is due to stop the job.
pub const LOOK: Duration = Duration::from_millis(10);
/// The time before the deadline at which a frozen guard is given up. It was due to kill the job before that, and no time is
/// left for a thaw.
const LAST_LOOK: Duration = Duration::from_millis(100);
/// The time for a guard that ends by itself.
const LAST_WORK: Duration = Duration::from_secs(1);

impl Job {
    /// Makes the guard. To be called before any thread is started.
    ///
    /// The job is stopped and killed in the `reserve` of its lease. Leftovers have its `kill_after`, too.
    pub fn prepare(command: Vec<OsString>, reserve: Reserve, leftovers: LeftoverPolicy) -> io::Result<Job> {
        title::hide(&command);
        let (guard, channel, children, end_notice) = fork_guard(command, reserve.kill_after, leftovers)?;
        let guard = GuardProcess::new(guard);
        Ok(Job {
            channel,
            guard: Arc::new(guard),
            end_notice,
            children,
            reserve,
            command: None,
            watchdog: None,
            command_end: None,
            look_at: BootTime::from_nanos(0),
            was_stopped: false,
            was_frozen: false,
            is_over: false,
            is_unconfirmed: false,
        })
    }

    /// The pid of the guard.
    pub fn guard_pid(&self) -> u32 {
        self.guard.pid() as u32
    }

    /// True if the guard was killed before the start of the command.
    pub fn has_lost_guard(&self) -> bool {
        is_readable(self.as_fd())
    }

    /// Leaves out a child of this process that does not belong to the job: it stays when the job is killed here.
    pub(super) fn leave_out(&self, pid: i32) {
        self.children.leave_out(pid);
    }

    /// A handle with which another thread sends requests to the guard.
    pub fn control(&self) -> io::Result<JobControl> {
        let (channel, guard) = (Arc::new(self.channel.try_clone()?), Arc::clone(&self.guard));
        Ok(JobControl { channel, guard, reserve: self.reserve })
    }

    /// The end of the job may come before the guard has looked itself: [`Job::confirm`] has what it found.
    pub fn next(&mut self, signals: &mut Signals, until: Option<Deadline>) -> JobEvent {
        loop {
            if let Some(arrived) = signals.take() {
                return JobEvent::Signal(arrived);
            }
            if let Some(event) = self.take().or_else(|| self.take_notice()) {
                return event;
            }
            if until.is_some_and(Deadline::has_passed) {
                return JobEvent::TimeUp;
            }
            let next = until.into_iter().chain(self.next_look()).min().unwrap_or(Deadline::NEVER);
            wait_readable([signals.as_fd(), self.as_fd(), self.end_notice.as_fd()], next);
        }
    }

    /// The end of the job as the command's parent tells it: unless the job was to be stopped by then, it ended by itself.
    fn take_notice(&mut self) -> Option<JobEvent> {
        let status = self.end_notice.take()?;
        if self.guard.is_due() {
            return None;
        }
        (self.is_over, self.is_unconfirmed) = (true, true);
        let ended = JobEnd { status, expired: false, leftovers: false };
        Some(JobEvent::JobEnd { ended, guard_lost: None })
    }

    /// Replaces an end of the job that the guard had not seen by what the guard says of it. A guard that somebody killed
    /// since then says nothing, and nothing of the job was alive.
    pub fn confirm(&mut self, ended: &mut JobEnd) {
        if !std::mem::take(&mut self.is_unconfirmed) {
            return;
        }
        let until = Deadline::after(LAST_WORK);
        while !until.has_passed() {
            if !is_readable(self.as_fd()) {
                // Somebody may have stopped it.
                self.guard.send(libc::SIGCONT);
                wait_readable([self.as_fd()], until);
            }
            match self.channel.receive() {
                Some(GuardReport::JobEnd(found)) => {
                    *ended = found;
                    return;
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// The next event of the job that has come, if there is one.
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
        let named = |pid: i32| Some((pid, process::name_of(pid)?));
        let children = descendants::children_of(self.guard.pid()).into_iter();
        children.filter(|pid| Some(*pid) != self.watchdog).find_map(named)
    }

    /// When to look at the guard again, which is due to stop the job.
    pub fn next_look(&self) -> Option<BootTime> {
        self.guard.stop_at().map(|stop_at| self.look_at.max(stop_at))
    }

    /// Wakes a guard that is stopped when it should stop the job; gives it up when it is stopped again.
    pub(super) fn look_at_guard(&mut self) -> Option<GuardLoss> {
        if !self.next_look().is_some_and(Deadline::has_passed) {
            return None;
        }
        self.look_at = BootTime::after(LOOK);
        let stop_at = self.guard.stop_at().unwrap_or(BootTime::NEVER);
        let is_frozen = stop_at.plus(self.reserve.length()).minus(LAST_LOOK).has_passed()
            && process::is_frozen(self.guard.pid());
        if is_frozen && self.was_frozen {
            self.kill_below_guard();
            return Some(GuardLoss::Stopped);
        }
        self.was_frozen = is_frozen;
        let is_stopped = process::is_stopped(self.guard.pid());
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
        self.guard.forget();
    }

    /// The guard is dead, or dies with the job. Its orphans are redlock's children now; none may live on unguarded.
    pub(super) fn kill_without_guard(&self) -> JobEnd {
        let command = self.command.and_then(descendants::reap_one);
        dispositions::set_ignored(libc::SIGCHLD, true);
        kill_all(&self.children);
        self.guard.forget();
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
        let guard = Pid::from_raw(self.guard.pid());
        // Most often it has ended while the lock was released.
        if self.is_over
            && waitpid(guard, Some(WaitPidFlag::WNOHANG)).is_ok_and(|how| how != WaitStatus::StillAlive)
        {
            self.guard.forget();
        }
        if !self.guard.is_reaped() {
            if self.command.is_none() || self.is_over {
                // It ends the processes that it made ahead, if nothing was started, and itself. The processor time of
                // the command counts for the caller when each process has waited for the next one.
                self.channel.hang_up();
                self.guard.send(libc::SIGCONT);
                wait_readable([self.as_fd()], Deadline::after(LAST_WORK));
            }
            self.guard.send(libc::SIGKILL);
            let _ = waitpid(guard, None);
        }
        if let Some(pid) = self.watchdog.filter(|pid| is_watchdog(*pid)) {
            let _ = waitpid(Pid::from_raw(pid), None);
        }
    }
}

impl AsFd for Job {
    /// Readable before the start of the command when the guard is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
