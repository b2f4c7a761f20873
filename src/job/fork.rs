//! Forks processes of redlock that run Rust code: the guard, and one that goes on when redlock has ended.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, Pid, chdir, fork, setsid};

use super::protocol::Channel;
use super::{dispositions, streams};

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

/// Forks a process that does `work`, and ends, from one that has no other thread and all signals blocked. It ends
/// without a signal to this process, and wait(2) sees it only when asked for such a one.
pub fn fork_silently(work: impl FnOnce()) -> io::Result<i32> {
    // SAFETY: nobody else holds a lock in the memory that is copied, so the child may run any code: the command's parent
    // shares it, and takes none. Without flags clone(2) is fork(2), but for the signal.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            end()
        }
        pid => Ok(pid as i32),
    }
}

/// Leaves the caller's session, with the group. Signals to the job's group do not reach this process then. And a parent of
/// the job in the caller's session would be the only one outside the caller's group: when it ended, the group would
/// become an orphan, and the kernel would send it SIGHUP if one of its processes were stopped (`kill_orphaned_pgrp` in
/// Linux). Uses no `errno`, so a process that shares
/// the memory of another may call it.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}

/// Ends this process without the exit handlers and the destructors of the parent's copy.
pub fn end() -> ! {
    // SAFETY: nothing of this process is in use by another one.
    unsafe { libc::_exit(0) }
}

/// Forks a process of its own session that does `work` and ends, with nothing of the caller's: of the descriptors it
/// keeps `kept` only. To be called before any thread is started: see `fork_off`.
pub fn detach(name: &CStr, kept: &[BorrowedFd], work: impl FnOnce(Channel)) -> io::Result<(u32, Channel)> {
    let (child, channel) = fork_off(|channel| {
        let kept: Vec<i32> = kept.iter().chain([&channel.as_fd()]).map(AsRawFd::as_raw_fd).collect();
        if settle(name, &kept).is_ok() {
            work(channel);
        }
    })?;
    Ok((child.as_raw() as u32, channel))
}

/// Leaves all that is the caller's, and ignores every signal that can be ignored. Whoever stops a service or a machine
/// signals all of its processes, also those that only the others need: this one ends when its work does.
fn settle(name: &CStr, kept: &[i32]) -> io::Result<()> {
    setsid()?;
    prctl::set_name(name)?;
    chdir("/")?;
    streams::detach(false);
    close_all_but(kept)?;
    // A child could not be waited for with SIGCHLD ignored, and that ends nobody anyway.
    let ignored =
        (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGCHLD);
    ignored.for_each(|signal| dispositions::set_ignored(signal, true));
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Closes what the caller had open: a pipe of which somebody waits for the end, a file with a lock on it. This process may
/// use what is in `kept`, and nothing else that its copy of the parent's memory has open.
pub fn close_all_but(kept: &[i32]) -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && !kept.contains(fd)) {
        // SAFETY: nothing in this process uses these descriptors: what it needs of the parent's is in `kept`.
        unsafe { libc::close(fd) };
    }
    Ok(())
}
