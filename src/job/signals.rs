//! The signals that arrive at redlock: from where, and which of them belong together.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{getpid, getsid};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::register;
use signal_hook::low_level::siginfo::{Cause, Origin};

use super::dispositions::is_ignored;
use super::passed_on;
use crate::clock::{BootTime, Deadline};
use crate::poll::wait_readable;

/// The signals that redlock handles. Signals that the caller ignored stay ignored (nohup, `&`). An alarm is inherited through
/// exec (alarm(2)): wrappers of cron jobs limit a job with it.
const HANDLED: [c_int; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU];

/// When each of them arrived last, in nanoseconds since boot. On a busy machine it may be looked at much later.
static ARRIVED: [AtomicU64; HANDLED.len()] = [const { AtomicU64::new(0) }; HANDLED.len()];

pub struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    /// Taken from the delivery, not yet asked for.
    arrived: VecDeque<Origin>,
    /// The one that was handed out last and not for the command alone.
    last: Option<Last>,
    /// A SIGHUP has come; true if one did from the kernel.
    hung_up: Option<bool>,
    /// The kernel tells the leader of a session alone that its terminal is gone: see `tty_signal_session_leader` in Linux.
    leads_session: bool,
}

/// Two signals within this time are one request: timeout(1) signals redlock, and then the group in which redlock and
/// its job are; systemd sends SIGHUP right after SIGTERM.
const REPEAT: Duration = Duration::from_millis(20);

/// On a busy machine the handler runs late. Time that this thread waited for a processor does not count, up to this much.
const LONGEST_REPEAT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
struct Last {
    signal: c_int,
    /// When its first signal arrived, and what [`waited`] said then.
    at: BootTime,
    waited: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub signal: c_int,
    /// The kernel sent it to the whole foreground process group, for a key such as Ctrl-C: the
    /// command has it already. A signal of kill(2) went to redlock alone. See sigaction(2), `si_code`.
    pub from_terminal: bool,
    /// It belongs to the signal before, which came just now.
    pub is_repeat: bool,
    /// The other SIGHUP of a terminal that ended: the kernel sends one, and the shell another, at any time after that.
    pub is_second_hangup: bool,
}

impl Signals {
    /// Catches the handled signals, but for those that the caller ignored. To be called while this process has one
    /// thread. Signals are blocked until all are caught: each has two handlers, and one that came between them would be
    /// lost.
    pub fn listen() -> io::Result<Signals> {
        let handled =
            SigSet::from_iter(HANDLED.into_iter().filter_map(|signal| Signal::try_from(signal).ok()));
        let mask = handled.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = Signals::install();
        mask.thread_set_mask()?;
        signals
    }

    fn install() -> io::Result<Signals> {
        let (read, write) = UnixStream::pair()?;
        passed_on::note_ending(write.try_clone()?.into())?;
        let handled = HANDLED.into_iter().zip(&ARRIVED).filter(|(signal, _)| !is_ignored(*signal));
        for (signal, at) in handled.clone() {
            // SAFETY: clock_gettime(2) and an atomic are safe in a signal handler: signal-safety(7).
            unsafe { register(signal, move || at.store(BootTime::now().as_nanos(), Ordering::Relaxed))? };
        }
        let delivery =
            SignalDelivery::with_pipe(read, write, WithOrigin::default(), handled.map(|(signal, _)| signal))?;
        let leads_session = getsid(None) == Ok(getpid());
        Ok(Signals { delivery, arrived: VecDeque::new(), last: None, hung_up: None, leads_session })
    }

    /// There is a command, which may want to know of signals that end nothing.
    pub fn pass_on_all(&self) {
        let _ = passed_on::note_harmless();
    }

    /// A descriptor that is readable when a signal has come or one of the `others` is readable.
    pub fn or(&self, others: &[BorrowedFd]) -> io::Result<OwnedFd> {
        let any = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for fd in [self.as_fd()].iter().chain(others) {
            any.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(any.0)
    }

    pub fn next_until(&mut self, end: Deadline) -> Option<Arrived> {
        wait_readable([self.as_fd()], end);
        self.take()
    }

    /// The first signal that has come and is not for the command alone. It stays to be taken.
    pub fn first_for_redlock(&mut self) -> Option<c_int> {
        self.arrived.extend(self.delivery.pending());
        self.arrived.iter().map(|origin| origin.signal).find(|signal| !is_for_the_command(*signal))
    }

    /// A signal that came, if there is one.
    pub fn take(&mut self) -> Option<Arrived> {
        if self.arrived.is_empty() {
            self.arrived.extend(self.delivery.pending());
        }
        loop {
            let Some(origin) = self.arrived.pop_front() else {
                return passed_on::take().map(Arrived::for_the_command);
            };
            let at = arrival_of(origin.signal);
            let waited = waited();
            let before = self.last.filter(|last| {
                let apart = at.since(last.at);
                let late = waited.saturating_sub(last.waited);
                apart < LONGEST_REPEAT && apart.saturating_sub(late) < REPEAT
            });
            let from_kernel = origin.cause == Cause::Kernel;
            let is_hangup = origin.signal == SIGHUP;
            let arrived = Arrived {
                signal: origin.signal,
                from_terminal: from_kernel
                    && (matches!(origin.signal, SIGINT | SIGQUIT) || is_hangup && !self.leads_session),
                is_repeat: before.is_some(),
                is_second_hangup: is_hangup && self.hung_up.is_some_and(|by_kernel| by_kernel || from_kernel),
            };
            if is_hangup {
                self.hung_up = Some(from_kernel || self.hung_up == Some(true));
            }
            if arrived.is_for_the_command() {
                return Some(arrived);
            }
            if before.is_none_or(|last| last.signal != arrived.signal) {
                let signal = arrived.signal;
                self.last = Some(before.map_or(Last { signal, at, waited }, |last| Last { signal, ..last }));
                return Some(arrived);
            }
        }
    }
}

/// The time that this thread has waited for a processor so far: see "schedstat" in the kernel's documentation of scheduler
/// statistics. Zero where the kernel does not say so.
fn waited() -> Duration {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = statistics.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

fn arrival_of(signal: c_int) -> BootTime {
    let at = HANDLED.iter().zip(&ARRIVED).find(|(handled, _)| **handled == signal);
    at.map_or_else(BootTime::now, |(_, at)| BootTime::from_nanos(at.load(Ordering::Relaxed)))
}

impl Arrived {
    fn for_the_command(signal: c_int) -> Arrived {
        Arrived { signal, from_terminal: false, is_repeat: false, is_second_hangup: false }
    }

    /// A key at the terminal, such as Ctrl-C. The end of the terminal is not a key, and comes more than once: from the
    /// kernel, and from the shell.
    pub fn is_key_press(self) -> bool {
        self.from_terminal && self.signal != SIGHUP
    }

    /// It asks redlock to end, and does not repeat a signal that did.
    pub fn asks_to_end(self) -> bool {
        !self.is_for_the_command() && !self.is_repeat && !self.is_second_hangup
    }

    /// A second one soon after it is urgent. Others may come again and again: SIGHUP to reload, SIGQUIT for a dump.
    pub fn may_become_urgent(self) -> bool {
        self.from_terminal || matches!(self.signal, SIGINT | SIGTERM)
    }

    /// A signal that has no meaning but the one that the command gives it.
    pub fn is_for_the_command(self) -> bool {
        is_for_the_command(self.signal)
    }
}

fn is_for_the_command(signal: c_int) -> bool {
    !matches!(signal, SIGALRM | SIGHUP | SIGINT | SIGQUIT | SIGTERM | SIGXCPU)
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

/// Ends this process by `signal`, so that the caller sees the death that the command had: bash
/// stops a script only when Ctrl-C killed the command, not when it exited with 130. Without a core
/// dump: the command's own is enough. Exits with 128 + signal where raising does nothing (PID 1).
pub fn die_of(signal: c_int) -> ! {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    super::dispositions::set_ignored(signal, false);
    // SAFETY: the set is initialised by sigemptyset before it is used; raise takes any number.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}
