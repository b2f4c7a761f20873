//! The standard streams as the caller gave them, and /dev/null in their place.

use std::sync::atomic::{AtomicU8, Ordering};

/// The streams that the caller had closed. Bit 0 is standard input.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Opens /dev/null in the place of the streams that are closed, so that no other file gets their number.
pub fn open_closed() {
    for fd in 0..3 {
        // SAFETY: F_GETFD reads flags of a descriptor, open or not; open(2) takes the lowest free one, which is this.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
                // The next file that is opened would become a standard stream.
                if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) == -1 {
                    libc::_exit(70);
                }
            }
        }
    }
}

/// Closes them again. For the child, between fork and exec.
pub fn close_again() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed & (1 << fd) != 0) {
        // SAFETY: these are our /dev/null; nothing between here and exec uses them.
        unsafe { libc::close(fd) };
    }
}

pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << libc::STDOUT_FILENO) != 0
}

/// Gives this process and its children standard streams, also where the caller closed some: an empty input, and no output
/// but stderr.
pub fn open() {
    CLOSED.store(0, Ordering::Relaxed);
    detach(true);
}

/// Points the standard streams of this process to /dev/null, so that the readers of a pipe see its
/// end when the command closes it, and not when redlock ends.
pub fn detach(keep_stderr: bool) {
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdin(&null);
        let _ = nix::unistd::dup2_stdout(&null);
        if !keep_stderr {
            let _ = nix::unistd::dup2_stderr(&null);
        }
    }
}
