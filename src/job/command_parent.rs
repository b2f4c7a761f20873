//! The parent of the command: a process between the guard and the command, which waits for the end of the command.
//! It stays in the caller's process group with all signals blocked, so what is pending for it went to the whole group.
//!
//! So the guard can leave all other deaths to the kernel (SIGCHLD ignored, see wait(2)), and sleeps until it is needed.
//! A job that forks all the time would otherwise use up the guard's share of the processor with zombies to wait for, and
//! those that are left would be in the way when the job has to be killed.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getppid};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use thiserror::Error;

use super::descendants::{OwnChildren, children_of};
use super::dispositions;
use super::end_notice::{EndNotice, LeftoverLook, RUNNING, SIGNALED, status_of};
use super::group_signals::GroupSignals;
use super::kill::kill_all;
use super::priority;
use super::process::{has_pending, name_of, send, wake_blocked};
use super::protocol::{Channel, ExitStatus};
use super::spawn::Prepared;
use crate::clock::Deadline;
use crate::poll::is_readable;

/// Its name in `ps`. It is not the guard's: signals are not passed on below another guard.
const NAME: &std::ffi::CStr = c"lock-command";
/// Enough for making the next process, which has another one.
const STACK: usize = 64 << 10;
/// The pause between two looks at a process that does not start the command or does not say how it ended, in milliseconds.
const LOOK: u8 = 5;

pub struct CommandParent {
    /// The pid of the command.
    pub command: i32,
    /// Readable when the command has ended.
    pub command_end: OwnedFd,
    pub pid: i32,
    /// Readable when the process has ended.
    descriptor: OwnedFd,
    work: Box<Work>,
    /// It runs on this.
    _stack: Vec<u8>,
}

/// The reason why the command has no parent of ours.
#[derive(Debug, Error)]
pub enum NoParent {
    /// The command could not be started, or the process could not be made.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// Somebody killed the process, or its child, before it was known that the command runs.
    #[error("killed")]
    Killed,
    /// Redlock was gone, or the time was over, before it was known that the command runs.
    #[error("given up")]
    GivenUp {
        /// The command had begun, and was killed.
        has_begun: bool,
    },
}

/// The memory that the process and the guard share.
struct Work {
    command: Prepared,
    guard: Pid,
    /// The pid of the process that becomes the command, or the negative `errno` with which it could not be made.
    made: AtomicI32,
    command_end: AtomicI32,
    /// The negative `errno` with which the command could not be executed; else a positive number.
    outcome: AtomicI32,
    status: AtomicI32,
    /// Written when something above has changed.
    bell: EventFd,
    group_signals: GroupSignals,
    leftovers: LeftoverLook,
    end_notice: EndNotice,
}

impl CommandParent {
    /// Makes the process, and the one that becomes the command, which sleeps until [`CommandParent::start`]. To be called
    /// with all signals blocked and one thread.
    pub fn prepare(command: Prepared, end_notice: EndNotice) -> Result<CommandParent, NoParent> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let mut work = Box::new(Work {
            command,
            guard: Pid::this(),
            made: AtomicI32::new(0),
            command_end: AtomicI32::new(-1),
            outcome: AtomicI32::new(0),
            status: AtomicI32::new(RUNNING),
            bell: EventFd::from_flags(flags).map_err(io::Error::from)?,
            group_signals: GroupSignals::new()?,
            leftovers: LeftoverLook::new()?,
            end_notice,
        });
        // Most of it is never touched, and setting it to zero would take 50 us.
        let mut stack: Vec<u8> = Vec::with_capacity(STACK);
        // Without SIGCHLD at its end, so that we wait for it although we leave the others to the kernel: with it we
        // get the processor time of the command, for who asks how long it took.
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_PIDFD;
        let mut descriptor: c_int = -1;
        // SAFETY: the new process shares our memory, as a thread does. Until it has made the next process we wait. After
        // that it makes system calls that touch nothing of ours but the atomic parts of `Work`, which lives as long as the
        // process, like the stack: the guard ends without destructors, and with it this process.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK & !15).cast();
            libc::clone(wait_for_command, top, flags, (&raw mut *work).cast(), &raw mut descriptor)
        };
        if pid == -1 {
            return Err(io::Error::last_os_error().into());
        }
        // SAFETY: the kernel has just made it, and it is nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // The new process has our `errno`: no system call that fails until it has answered.
        let mut fds = [work.bell.as_fd(), descriptor.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        while poll(&mut fds, LOOK) == Ok(0) {
            send(pid, libc::SIGCONT);
        }
        let made = work.made.load(Ordering::Acquire);
        if made <= 0 {
            send(pid, libc::SIGKILL);
            reap(pid);
            return Err(if made < 0 { io::Error::from_raw_os_error(-made).into() } else { NoParent::Killed });
        }
        let _ = work.bell.read();
        // SAFETY: it was made for us.
        let command_end = unsafe { OwnedFd::from_raw_fd(work.command_end.load(Ordering::Relaxed)) };
        Ok(CommandParent { command: made, command_end, pid, descriptor, work, _stack: stack })
    }

    /// Starts the command with these additions to its environment. After an error nothing of it is alive. It
    /// [raises](priority::raise) this process, which might see too late on a busy machine that the time has passed.
    pub fn start(
        &mut self,
        added: &[(String, String)],
        channel: &Channel,
        until: Deadline,
        children: &OwnChildren,
    ) -> Result<(), NoParent> {
        if self.was_killed() {
            self.give_up(children);
            return Err(NoParent::Killed);
        }
        priority::raise();
        if let Err(error) = self.work.command.execute_with(added) {
            self.give_up(children);
            return Err(error.into());
        }
        // The process that executes the command has our `errno`: no system call that fails until that is known.
        let mut fds = [
            PollFd::new(self.work.bell.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN),
            // Its end is seen also without asking.
            PollFd::new(channel.as_fd(), PollFlags::empty()),
        ];
        while poll(&mut fds, until.poll_timeout().min(LOOK.into())) == Ok(0) && !until.has_passed() {
            // The first thing that the command does may be to stop its parent; and both may have been stopped before.
            send(self.pid, libc::SIGCONT);
            if name_of(self.command).is_some_and(|name| name.as_bytes() == NAME.to_bytes()) {
                send(self.command, libc::SIGCONT);
            }
            self.work.group_signals.take(libc::SIGCONT);
        }
        let [has_answered, has_ended] = [0, 1].map(|fd: usize| fds[fd].any().unwrap_or(false));
        let outcome = self.work.outcome.load(Ordering::Acquire);
        if outcome > 0 {
            let _ = self.work.bell.read();
            return Ok(());
        }
        let is_other = |name: String| name.as_bytes() != NAME.to_bytes();
        let has_begun = !has_answered && children_of(self.pid).into_iter().filter_map(name_of).any(is_other);
        self.give_up(children);
        Err(match (outcome, has_ended) {
            (..0, _) => io::Error::from_raw_os_error(-outcome).into(),
            (_, true) => NoParent::Killed,
            (_, false) => NoParent::GivenUp { has_begun },
        })
    }

    /// Kills both processes, and waits for their end.
    pub fn give_up(&self, children: &OwnChildren) {
        send(self.pid, libc::SIGKILL);
        reap(self.pid);
        // The one that was to become the command is our child now, or was waited for.
        dispositions::set_ignored(libc::SIGCHLD, true);
        kill_all(children);
    }

    /// True if one of the two processes was killed before the start.
    fn was_killed(&self) -> bool {
        [self.descriptor.as_fd(), self.command_end.as_fd()].into_iter().any(is_readable)
    }

    /// The end of the command. `None` until it is known, and when the process was killed before.
    pub fn status(&self) -> Option<ExitStatus> {
        status_of(self.work.status.load(Ordering::Acquire))
    }

    /// From now on the guard has this child, which does not belong to the job.
    pub fn leave_out(&self, watchdog: i32) {
        self.work.leftovers.leave_out(watchdog);
    }

    /// Waits for its end, which has come or comes at once.
    pub fn reap(&self) {
        reap(self.pid);
    }

    /// Waits until it is known how the command ended, which is dead. Wakes the process when that takes long: somebody
    /// stopped it.
    pub fn await_status(&self) -> bool {
        let fds = [self.work.bell.as_fd(), self.descriptor.as_fd()];
        let is_known = poll(&mut fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)), LOOK) != Ok(0);
        if !is_known {
            self.wake();
        }
        is_known
    }

    pub fn wake(&self) {
        if wake_blocked(self.pid) {
            self.work.group_signals.take(libc::SIGCONT);
        }
    }

    /// True if this signal was sent to the caller's process group since it was last taken.
    pub fn has_reached_group(&self, signal: c_int) -> bool {
        has_pending(self.pid, signal)
    }

    /// Takes it, so that the next one can be told from it.
    pub fn take(&self, signal: c_int) {
        self.work.group_signals.take(signal);
        self.wake();
    }
}

impl AsFd for CommandParent {
    /// Readable when the process has ended: it did its work, or was killed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

extern "C" fn wait_for_command(work: *mut c_void) -> c_int {
    // SAFETY: the guard waits, and nobody else uses `work` until the bell rings.
    let made = unsafe {
        let work = &mut *work.cast::<Work>();
        let _ = set_name(NAME);
        // It waits for its child; and it ends with the guard, as the command ends with it.
        dispositions::set_ignored(libc::SIGCHLD, false);
        let is_guarded = set_pdeathsig(Signal::SIGKILL).is_ok() && getppid() == work.guard;
        let made =
            if is_guarded { work.command.fork() } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) };
        match made {
            Ok((command, end)) => {
                work.command_end.store(end.into_raw_fd(), Ordering::Relaxed);
                command
            }
            Err(error) => -error.raw_os_error().unwrap_or(libc::EINVAL),
        }
    };
    // SAFETY: `work` lives as long as this process. From here on both use what is atomic in it, and its descriptors.
    let work = unsafe { &*work.cast::<Work>() };
    // From here on the guard runs, too. These calls of rustix use no memory that the two share: no `errno`.
    work.made.store(made, Ordering::Release);
    work.ring();
    if made > 0 {
        work.follow(made);
    }
    0
}

impl Work {
    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Says what becomes of the command. Uses no `errno`.
    fn follow(&self, command: i32) {
        // SAFETY: the guard closes its descriptors, which this process shares, when it ends.
        let end = unsafe { BorrowedFd::borrow_raw(self.command_end.load(Ordering::Relaxed)) };
        let Some(command) = rustix::process::Pid::from_raw(command) else { return };
        let started = self.command.await_execution();
        // They came while the lock was waited for, and say nothing of what comes now.
        self.group_signals
            .take_signals([libc::SIGCONT, libc::SIGWINCH].map(|signal| 1 << (signal - 1)).iter().sum());
        self.outcome.store(started.map_or_else(|errno| -(errno as i32), |()| 1), Ordering::Release);
        self.ring();
        self.group_signals.take_signals_until(end);
        let end = loop {
            match waitid(WaitId::Pid(command), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(Some(end)) => break end,
                Err(rustix::io::Errno::INTR) | Ok(None) => {}
                Err(_) => return,
            }
        };
        // The command stays a zombie until its end is known, so that its pid is not used again while the guard may send
        // it a signal.
        let signal = end.terminating_signal().map(|signal| SIGNALED + signal);
        let status = signal.or(end.exit_status()).unwrap_or(RUNNING);
        self.status.store(status, Ordering::Release);
        if status != RUNNING && self.leftovers.finds_none() {
            self.end_notice.tell(status);
        }
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(command), WaitIdOptions::EXITED) {}
        self.ring();
    }
}

fn reap(pid: i32) {
    // The flag is for a child without a signal at its end: see clone(2).
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::__WALL));
}
