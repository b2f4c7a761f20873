//! Forks a process of redlock that runs Rust code.

use std::io;

use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, Pid, fork};

use super::protocol::Channel;

/// Forks a process that does `work`, with all signals blocked, and ends. Returns its pid and the line to it.
///
/// To be called before any thread is started: the child goes on running Rust code after the fork, which
/// only a process with one thread may. See fork(2) and signal-safety(7).
pub fn fork_off(work: impl FnOnce(Channel)) -> io::Result<(Pid, Channel)> {
    let (front, back) = Channel::pair()?;
    let mask = SigSet::thread_get_mask()?;
    // No signal reaches the child before it has left what the caller's signals are meant for: `systemctl
    // stop` sends SIGTERM to every process there is, and a job needs its guard then.
    SigSet::all().thread_set_mask()?;
    // SAFETY: no other thread exists, so the child may run any code.
    let forked = unsafe { fork() };
    if let Ok(ForkResult::Child) = forked {
        drop(front);
        work(back);
        end();
    }
    mask.thread_set_mask()?;
    match forked? {
        ForkResult::Parent { child } => Ok((child, front)),
        ForkResult::Child => end(),
    }
}

/// Ends this process without the exit handlers and the destructors of the parent's copy.
pub fn end() -> ! {
    // SAFETY: nothing of this process is in use by another one.
    unsafe { libc::_exit(0) }
}
