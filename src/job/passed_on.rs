//! Signals that mean nothing to redlock, and may mean something to the command: they are noted, and passed on each time.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// These end a process that does not handle them: systemd's watchdog sends SIGABRT, an UPS daemon SIGPWR, and a container
/// may be stopped with a real-time signal. Signals that report a fault of the program itself are left alone.
const ENDING: [c_int; 6] =
    [libc::SIGABRT, libc::SIGIO, libc::SIGPROF, libc::SIGPWR, libc::SIGSTKFLT, libc::SIGVTALRM];
/// These end nothing, so they matter only while there is a command.
const HARMLESS: [c_int; 2] = [libc::SIGCONT, libc::SIGWINCH];

/// The signals that have come: bit 0 is signal 1.
static NOTED: AtomicU64 = AtomicU64::new(0);
/// A socket: what is written to it wakes the thread that waits for signals.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Notes the signals that would end redlock, but for those that the caller ignored.
pub fn note_ending(wake: OwnedFd) -> io::Result<()> {
    WAKE.store(wake.into_raw_fd(), Ordering::Relaxed);
    ENDING.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).try_for_each(handle)
}

/// Notes the others as well.
pub fn note_harmless() -> io::Result<()> {
    HARMLESS.into_iter().try_for_each(handle)
}

/// One of the signals that were noted, if there is one.
pub fn take() -> Option<c_int> {
    let noted = NOTED.load(Ordering::Acquire);
    let signal = (noted != 0).then(|| noted.trailing_zeros())?;
    NOTED.fetch_and(!(1 << signal), Ordering::AcqRel);
    Some(signal as c_int + 1)
}

fn handle(signal: c_int) -> io::Result<()> {
    // SAFETY: zeroes are a valid sigaction, and the handler makes calls only that signal-safety(7) allows.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = note;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        let mut before: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(signal, &action, &mut before) {
            // One that the caller ignores stays ignored: seldom, so most signals take one system call.
            0 if before.sa_sigaction == libc::SIG_IGN => {
                libc::sigaction(signal, &before, std::ptr::null_mut())
            }
            done => done,
        }
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn note(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel hands over a valid siginfo_t with SA_SIGINFO. The thread that was interrupted keeps its errno.
    unsafe {
        // The terminal tells the command itself that its size has changed.
        if signal == libc::SIGWINCH && (*info).si_code > 0 {
            return;
        }
        NOTED.fetch_or(1 << (signal - 1), Ordering::AcqRel);
        let errno = *libc::__errno_location();
        let byte = [0_u8];
        libc::send(
            WAKE.load(Ordering::Relaxed),
            byte.as_ptr().cast(),
            1,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        );
        *libc::__errno_location() = errno;
    }
}
