//! A process that goes on when redlock has ended: in a session of its own, with nothing of the caller's.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::unistd::{chdir, setsid};

use super::dispositions;
use super::fork::fork_off;
use super::protocol::Channel;
use super::signals::Signals;

/// What a terminal, or who cleans up after it, sends; the process is none of theirs.
const IGNORED: [i32; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Forks a process that does `work` and ends. Returns its pid and the line to it. Of the descriptors of this
/// process it keeps `kept` only.
///
/// To be called before any thread is started: see `fork_off`.
pub fn detach(
    name: &std::ffi::CStr,
    kept: &[BorrowedFd],
    work: impl FnOnce(Channel, Signals),
) -> io::Result<(u32, Channel)> {
    let (child, channel) = fork_off(|channel| {
        let kept: Vec<i32> = kept.iter().chain([&channel.as_fd()]).map(AsRawFd::as_raw_fd).collect();
        if let Ok(signals) = settle(name, &kept) {
            work(channel, signals);
        }
    })?;
    Ok((child.as_raw() as u32, channel))
}

/// Leaves all that is the caller's. Of the signals that ask a process to end, SIGTERM is left.
fn settle(name: &std::ffi::CStr, kept: &[i32]) -> io::Result<Signals> {
    setsid()?;
    prctl::set_name(name)?;
    chdir("/")?;
    dispositions::detach_streams(false);
    close_all_but(kept)?;
    IGNORED.into_iter().for_each(|signal| dispositions::set_ignored(signal, true));
    dispositions::set_ignored(libc::SIGTERM, false);
    let signals = Signals::listen()?;
    SigSet::empty().thread_set_mask()?;
    Ok(signals)
}

/// Closes what the caller had open: a pipe of which somebody waits for the end, a file with a lock on it.
fn close_all_but(kept: &[i32]) -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && !kept.contains(fd)) {
        // SAFETY: nothing in this process has these descriptors: what the parent opened itself is in `kept`.
        unsafe { libc::close(fd) };
    }
    Ok(())
}
