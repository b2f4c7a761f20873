//! The parent of the command: a process between the guard and the command, which waits for the end of the command.
//! It stays in the caller's process group with all signals blocked, so what is pending for it went to the whole group.
//!
//! So the guard can leave all other deaths to the kernel (SIGCHLD ignored, see wait(2)), and sleeps until it is needed.
//! A job that forks all the time would otherwise use up the guard's share of the processor with zombies to wait for, and
//! those that are left would be in the way when the job has to be killed.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getppid};
use rustix::event;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use thiserror::Error;

use super::descendants::{OwnChildren, children_of, has_pending, name_of, send, wake_blocked};
use super::dispositions;
use super::kill::kill_all;
use super::priority;
use super::protocol::{Channel, ExitStatus};
use crate::clock::Deadline;

/// Its name in `ps`. It is not the guard's: signals are not passed on below another guard.
const NAME: &std::ffi::CStr = c"lock-command";
/// Enough for starting the command, which has another one.
const STACK: usize = 64 << 10;
/// Between two looks at a process that does not start the command or does not say how it ended, in milliseconds.
const LOOK: u8 = 5;
/// No [`ExitStatus`] so far; of one it is the exit code, or [`SIGNALED`] and the signal.
const RUNNING: c_int = -1;
const SIGNALED: c_int = 0x1000;

pub struct CommandParent {
    /// Of the command.
    pub command: i32,
    /// Readable when that has ended.
    pub command_end: OwnedFd,
    pub pid: i32,
    /// Readable when it has ended.
    descriptor: OwnedFd,
    group_signals: GroupSignals,
    status: Box<AtomicI32>,
    /// It runs on this.
    _stack: Vec<u8>,
}

/// The signals that are pending for the process. When it is woken it takes those that are not wanted any more.
#[derive(Debug)]
struct GroupSignals {
    wake: EventFd,
    /// A signalfd(2), with which the process takes them.
    taken: OwnedFd,
    /// Bit 0 is signal 1.
    unwanted: Box<AtomicU64>,
}

/// The same as the process knows it.
struct Unwanted<'a> {
    wake: BorrowedFd<'a>,
    taken: BorrowedFd<'a>,
    signals: &'a AtomicU64,
}

/// Why there is none.
#[derive(Debug, Error)]
pub enum NoParent {
    /// The command could not be started, or the process could not be made or was killed.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// Redlock was gone, or the time was over, before it was known that the command runs.
    #[error("given up")]
    GivenUp {
        /// It did, and was killed.
        has_begun: bool,
    },
}

/// What the new process needs. But for the status it is there until the command has started only.
struct Work<'a> {
    start: &'a mut dyn FnMut() -> io::Result<(i32, OwnedFd)>,
    guard: Pid,
    /// The pid of the command, or the negative `errno` of its start.
    outcome: AtomicI32,
    command_end: AtomicI32,
    is_started: EventFd,
    status: *const AtomicI32,
    /// The parts of [`GroupSignals`].
    wake: c_int,
    taken: c_int,
    unwanted: *const AtomicU64,
}

impl CommandParent {
    /// Makes the process, in which `start` starts the command, see [`Executable::start`](super::spawn::Executable::start).
    /// To be called with all signals blocked and one thread. `start` takes no memory and gives none back: this process
    /// goes on meanwhile. After an error nothing of the command is alive. It [raises](priority::raise) this
    /// process, which might see too late on a busy machine that the time is over. The caller lowers it again.
    pub fn fork(
        start: &mut dyn FnMut() -> io::Result<(i32, OwnedFd)>,
        channel: &Channel,
        until: Deadline,
        children: &OwnChildren,
    ) -> Result<CommandParent, NoParent> {
        let status = Box::new(AtomicI32::new(RUNNING));
        let group_signals = GroupSignals::new()?;
        // Most of it is never touched, and setting it to zero would take 50 us: whoever waited for the lock waits for that, too.
        let mut stack: Vec<u8> = Vec::with_capacity(STACK);
        let mut work = Work {
            start,
            guard: Pid::this(),
            outcome: AtomicI32::new(-libc::ECHILD),
            command_end: AtomicI32::new(-1),
            is_started: EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(io::Error::from)?,
            status: &*status,
            wake: group_signals.wake.as_raw_fd(),
            taken: group_signals.taken.as_raw_fd(),
            unwanted: &*group_signals.unwanted,
        };
        // Without SIGCHLD at its end, so that we wait for it although we leave the others to the kernel: with it we
        // get the processor time of the command, for who asks how long it took.
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_PIDFD;
        let mut descriptor: c_int = -1;
        // SAFETY: the new process shares our memory, as a thread does. Until the command has started we wait, and
        // `work` lives. After that it makes system calls that touch nothing of ours but the status, which lives as
        // long as the process, like the stack: the guard ends without destructors, and with it this process.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK & !15).cast();
            libc::clone(wait_for_command, top, flags, (&raw mut work).cast(), &raw mut descriptor)
        };
        if pid == -1 {
            return Err(io::Error::last_os_error().into());
        }
        // SAFETY: the kernel has just made it, and it is nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // The new process has our `errno`: no system call that fails until it has answered.
        priority::raise();
        let mut fds = [
            PollFd::new(work.is_started.as_fd(), PollFlags::POLLIN),
            PollFd::new(descriptor.as_fd(), PollFlags::POLLIN),
            // Its end is seen also without asking.
            PollFd::new(channel.as_fd(), PollFlags::empty()),
        ];
        while poll(&mut fds, until.poll_timeout().min(LOOK.into())) == Ok(0) && !until.has_passed() {
            // The first thing that the command does may be to stop its parent.
            send(pid, libc::SIGCONT);
            group_signals.take(libc::SIGCONT);
        }
        let [has_answered, has_ended] = [0, 1].map(|fd: usize| fds[fd].any().unwrap_or(false));
        let outcome = work.outcome.load(Ordering::Acquire);
        if outcome > 0 {
            // SAFETY: it was made for us.
            let command_end = unsafe { OwnedFd::from_raw_fd(work.command_end.load(Ordering::Relaxed)) };
            return Ok(CommandParent {
                command: outcome,
                command_end,
                pid,
                descriptor,
                group_signals,
                status,
                _stack: stack,
            });
        }
        let is_other = |name: String| name.as_bytes() != NAME.to_bytes();
        let has_begun = !has_answered && children_of(pid).into_iter().filter_map(name_of).any(is_other);
        send(pid, libc::SIGKILL);
        reap(pid);
        if !has_answered {
            // What is to become the command may be there, in our memory: its parent does not wait for it any more.
            dispositions::set_ignored(libc::SIGCHLD, true);
            kill_all(children);
        }
        match has_answered || has_ended {
            true => Err(io::Error::from_raw_os_error(-outcome).into()),
            false => Err(NoParent::GivenUp { has_begun }),
        }
    }

    /// How the command ended, once this process has ended; `None` when that was killed before.
    pub fn status(&self) -> Option<ExitStatus> {
        match self.status.load(Ordering::Acquire) {
            RUNNING => None,
            status if status >= SIGNALED => Some(ExitStatus::Signaled(status - SIGNALED)),
            status => Some(ExitStatus::Exited(status)),
        }
    }

    /// Waits for its end, which has come or comes at once.
    pub fn reap(&self) {
        reap(self.pid);
    }

    /// Waits for its end when the command has ended. Wakes it when that does not come at once: somebody stopped it.
    pub fn await_end(&self) -> bool {
        let has_ended = poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], LOOK) == Ok(1);
        if !has_ended {
            self.wake();
        }
        has_ended
    }

    pub fn wake(&self) {
        if wake_blocked(self.pid) {
            self.group_signals.take(libc::SIGCONT);
        }
    }

    /// True if this signal was sent to the caller's process group since it was last taken.
    pub fn has_reached_group(&self, signal: c_int) -> bool {
        has_pending(self.pid, signal)
    }

    /// Takes it, so that the next one can be told from it.
    pub fn take(&self, signal: c_int) {
        self.group_signals.take(signal);
        self.wake();
    }
}

impl GroupSignals {
    fn new() -> io::Result<GroupSignals> {
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(GroupSignals {
            wake: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            taken: SignalFd::with_flags(&SigSet::empty(), flags)?.into(),
            unwanted: Box::new(AtomicU64::new(0)),
        })
    }

    fn take(&self, signal: c_int) {
        self.unwanted.fetch_or(1 << (signal - 1), Ordering::AcqRel);
        let _ = self.wake.write(1);
    }
}

impl AsFd for CommandParent {
    /// Readable when the process has ended: the command's end is known, or it was killed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

extern "C" fn wait_for_command(work: *mut c_void) -> c_int {
    // SAFETY: the guard waits, and `work` is a `Work` that lives and that nobody else uses meanwhile.
    let (command, command_end, status, unwanted) = unsafe {
        let work = &mut *work.cast::<Work>();
        let _ = set_name(NAME);
        // It waits for its child; and it ends with the guard, as the command ends with it.
        dispositions::set_ignored(libc::SIGCHLD, false);
        let is_guarded = set_pdeathsig(Signal::SIGKILL).is_ok() && getppid() == work.guard;
        let started =
            if is_guarded { (work.start)() } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) };
        let outcome = match started {
            Ok((command, end)) => {
                work.command_end.store(end.into_raw_fd(), Ordering::Relaxed);
                command
            }
            Err(error) => -error.raw_os_error().unwrap_or(libc::EINVAL),
        };
        let status = &*work.status;
        let command_end = work.command_end.load(Ordering::Relaxed);
        let [wake, taken] = [work.wake, work.taken].map(|fd| BorrowedFd::borrow_raw(fd));
        let unwanted = Unwanted { wake, taken, signals: &*work.unwanted };
        work.outcome.store(outcome, Ordering::Release);
        let _ = work.is_started.write(1);
        (outcome, command_end, status, unwanted)
    };
    // From here on the guard runs, too. These calls of rustix use no memory that the two share: no `errno`.
    let Some(command) = rustix::process::Pid::from_raw(command.max(0)) else { return 0 };
    // SAFETY: the guard closes its descriptors, which this process shares, when it ends.
    take_signals_until(unsafe { BorrowedFd::borrow_raw(command_end) }, &unwanted);
    // The command stays a zombie until its end is known, so that its pid is not used again while the guard may send
    // it a signal.
    let end = loop {
        match waitid(WaitId::Pid(command), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(end)) => break end,
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(_) => return 0,
        }
    };
    let signal = end.terminating_signal().map(|signal| SIGNALED + signal);
    status.store(signal.or(end.exit_status()).unwrap_or(RUNNING), Ordering::Release);
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(command), WaitIdOptions::EXITED) {}
    0
}

/// Takes the unwanted signals whenever it is woken, until `end` is readable. Uses no `errno`.
fn take_signals_until(end: BorrowedFd, unwanted: &Unwanted) {
    let Unwanted { wake, taken, signals } = *unwanted;
    let readable = event::PollFlags::IN;
    loop {
        let mut fds =
            [event::PollFd::from_borrowed_fd(end, readable), event::PollFd::from_borrowed_fd(wake, readable)];
        if event::poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        let _ = rustix::io::read(wake, &mut [0; 8]);
        let signals = signals.swap(0, Ordering::AcqRel);
        // SAFETY: the set is initialised by sigemptyset before it is used; the descriptor is open. No call of these fails.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            let numbers = (1..=u64::BITS as c_int).filter(|signal| signals >> (signal - 1) & 1 == 1);
            numbers.for_each(|signal| _ = libc::sigaddset(&mut set, signal));
            libc::signalfd(taken.as_raw_fd(), &set, 0);
        }
        // A real-time signal may be pending several times.
        while rustix::io::read(taken, &mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok() {}
    }
}

fn reap(pid: i32) {
    // Also a child without a signal at its end: see clone(2).
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::__WALL));
}
