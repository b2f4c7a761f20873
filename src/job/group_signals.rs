//! The signals that are pending for the parent of the command, as they went to the whole process group of the caller.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event;

/// The signals that are pending for the process. When it is woken it takes those that are not wanted any more.
#[derive(Debug)]
pub struct GroupSignals {
    wake: EventFd,
    /// A signalfd(2), with which the process takes them.
    taken: OwnedFd,
    /// Bit 0 is signal 1.
    unwanted: AtomicU64,
}

impl GroupSignals {
    pub fn new() -> io::Result<GroupSignals> {
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(GroupSignals {
            wake: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            taken: SignalFd::with_flags(&SigSet::empty(), flags)?.into(),
            unwanted: AtomicU64::new(0),
        })
    }

    pub fn take(&self, signal: c_int) {
        self.unwanted.fetch_or(1 << (signal - 1), Ordering::AcqRel);
        let _ = self.wake.write(1);
    }

    /// Takes the unwanted signals whenever it is woken, until `end` is readable.
    pub fn take_signals_until(&self, end: BorrowedFd) {
        let readable = event::PollFlags::IN;
        loop {
            let mut fds =
                [event::PollFd::from_borrowed_fd(end, readable), event::PollFd::new(&self.wake, readable)];
            if event::poll(&mut fds, None).is_err() {
                continue;
            }
            if !fds[0].revents().is_empty() {
                return;
            }
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            self.take_signals(self.unwanted.swap(0, Ordering::AcqRel));
        }
    }

    /// Takes these signals where they are pending. Bit 0 is signal 1.
    pub fn take_signals(&self, signals: u64) {
        // SAFETY: the set is initialised by sigemptyset before it is used; the descriptor is open. No call of these fails.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            let numbers = (1..=u64::BITS as c_int).filter(|signal| signals >> (signal - 1) & 1 == 1);
            numbers.for_each(|signal| _ = libc::sigaddset(&mut set, signal));
            libc::signalfd(self.taken.as_raw_fd(), &set, 0);
        }
        // A real-time signal may be pending several times.
        while rustix::io::read(&self.taken, &mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok() {}
    }
}
