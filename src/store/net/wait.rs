//! Waiting until a timeout ends or its interrupt comes.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use super::{RequestError, RequestResult};
use crate::clock::Deadline;
use crate::lock::Timeout;
use crate::poll::is_readable;

/// An error when the timeout has ended: for loops that may go on without waiting.
pub fn check(timeout: &Timeout) -> RequestResult<()> {
    if timeout.until.has_passed() {
        return Err(RequestError::TimedOut);
    }
    match timeout.interrupt {
        Some(interrupt) if is_readable(interrupt) => Err(RequestError::Interrupted),
        _ => Ok(()),
    }
}

pub fn wait_ready(fd: BorrowedFd, flags: PollFlags, timeout: &Timeout) -> RequestResult<()> {
    loop {
        let mut fds = vec![PollFd::new(fd, flags)];
        fds.extend(timeout.interrupt.map(|interrupt| PollFd::new(interrupt, PollFlags::POLLIN)));
        match poll(&mut fds, timeout.until.poll_timeout()) {
            Ok(_) if fds.get(1).and_then(PollFd::any).unwrap_or(false) => {
                return Err(RequestError::Interrupted);
            }
            Ok(_) if fds[0].any().unwrap_or(false) => return Ok(()),
            Ok(_) if timeout.until.has_passed() => return Err(RequestError::TimedOut),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(RequestError::Broken(errno.desc().to_owned())),
        }
    }
}

/// Waits for `duration`; an error when the timeout ends before.
pub fn pause(duration: Duration, timeout: &Timeout) -> RequestResult<()> {
    let end = Deadline::after(duration).min(timeout.until);
    let is_cut_short = end == timeout.until;
    loop {
        timeout.pause(end.left()).map_err(|_| RequestError::Interrupted)?;
        if end.has_passed() {
            return if is_cut_short { Err(RequestError::TimedOut) } else { Ok(()) };
        }
    }
}
