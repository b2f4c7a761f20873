//! Signal dispositions and mask as the caller set them, and how the command gets them back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIG_DFL, SIG_IGN, c_int};
use nix::sys::signal::SigSet;

use super::streams;

static MASK: OnceLock<SigSet> = OnceLock::new();
static IGNORED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// A broken pipe and a file that may not grow (`ulimit -f`) make a write fail. redlock does not die of them with a lock
/// held.
const ERRORS: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Notes what the caller gave, and changes it as Rust's runtime does: standard streams that are closed go to
/// /dev/null, so that no other file gets their number, and `ERRORS` are ignored. To be called first of all.
pub fn normalise() {
    streams::open_closed();
    if let Ok(mask) = SigSet::thread_get_mask() {
        let _ = MASK.set(mask);
    }
    for (signal, was_ignored) in ERRORS.into_iter().zip(&IGNORED) {
        was_ignored.store(is_ignored(signal), Ordering::Relaxed);
        set_ignored(signal, true);
    }
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
    streams::close_again();
    MASK.get().map_or(Ok(()), SigSet::thread_set_mask)
}

/// Keeps the memory of this process out of core dumps: there is a password in it. The command is not
/// affected; see PR_SET_DUMPABLE(2const).
pub fn forbid_core_dumps() {
    let _ = nix::sys::prctl::set_dumpable(false);
}
