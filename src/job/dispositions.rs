//! Signal dispositions, mask and standard streams as the caller set them, and how the command gets them back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use libc::{SIG_DFL, SIG_IGN, c_int};
use nix::sys::signal::SigSet;

static CLOSED_STREAMS: AtomicU8 = AtomicU8::new(0);
static MASK: OnceLock<SigSet> = OnceLock::new();
static IGNORED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// A broken pipe and a file that may not grow (`ulimit -f`) are errors of a write, and no reason to die with a lock held.
const ERRORS: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Notes what the caller gave, and changes it as Rust's runtime does: standard streams that are closed go to
/// /dev/null, so that no other file gets their number, and `ERRORS` are no signals. To be called first of all.
pub fn normalise() {
    for fd in 0..3 {
        // SAFETY: F_GETFD reads flags of a descriptor, open or not; open(2) takes the lowest free one, which is this.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                CLOSED_STREAMS.fetch_or(1 << fd, Ordering::Relaxed);
                // Without it the next file that is opened would be a standard stream.
                if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) == -1 {
                    libc::_exit(70);
                }
            }
        }
    }
    if let Ok(mask) = SigSet::thread_get_mask() {
        let _ = MASK.set(mask);
    }
    for (signal, was_ignored) in ERRORS.into_iter().zip(&IGNORED) {
        was_ignored.store(is_ignored(signal), Ordering::Relaxed);
        set_ignored(signal, true);
    }
}

pub fn stdout_was_closed() -> bool {
    CLOSED_STREAMS.load(Ordering::Relaxed) & (1 << libc::STDOUT_FILENO) != 0
}

pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: sigaction is plain data for which zeroes are valid, and a null new action only reads.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == SIG_IGN
    }
}

pub fn set_ignored(signal: c_int, ignored: bool) {
    // SAFETY: SIG_DFL and SIG_IGN are valid dispositions and no Rust code runs in them.
    unsafe { libc::signal(signal, if ignored { SIG_IGN } else { SIG_DFL }) };
}

/// Gives the standard streams, the `ERRORS` and the signal mask back as they were. For the child, between fork and exec.
pub fn restore() -> nix::Result<()> {
    for (signal, was_ignored) in ERRORS.into_iter().zip(&IGNORED) {
        set_ignored(signal, was_ignored.load(Ordering::Relaxed));
    }
    let closed = CLOSED_STREAMS.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed & (1 << fd) != 0) {
        // SAFETY: these are our /dev/null; nothing between here and exec uses them.
        unsafe { libc::close(fd) };
    }
    MASK.get().map_or(Ok(()), SigSet::thread_set_mask)
}

/// Keeps the memory of this process out of core dumps: there is a password in it. The command is not
/// affected; see PR_SET_DUMPABLE(2const).
pub fn forbid_core_dumps() {
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// Gives this process and its children standard streams, also where the caller closed some: an empty input, and no output
/// but stderr.
pub fn open_streams() {
    CLOSED_STREAMS.store(0, Ordering::Relaxed);
    detach_streams(true);
}

/// Points the standard streams of this process to /dev/null, so that the readers of a pipe see its
/// end when the command closes it, and not when redlock ends.
pub fn detach_streams(keep_stderr: bool) {
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdin(&null);
        let _ = nix::unistd::dup2_stdout(&null);
        if !keep_stderr {
            let _ = nix::unistd::dup2_stderr(&null);
        }
    }
}
