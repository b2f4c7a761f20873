//! Waiting, as long as the patience lasts.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::failure::RequestError;
use crate::clock::BootTime;
use crate::lock::Timeout;

/// An error when the patience has ended: for whoever has something to do without waiting, again and again.
pub fn go_on(patience: &Timeout) -> Result<(), RequestError> {
    if patience.until.has_passed() {
        return Err(RequestError::TimedOut);
    }
    match patience.interrupt {
        Some(interrupt) => match poll(&mut [PollFd::new(interrupt, PollFlags::POLLIN)], PollTimeout::ZERO) {
            Ok(1..) => Err(RequestError::Interrupted),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// Waits until `fd` is ready, at most as long as `patience` says.
pub fn ready(fd: BorrowedFd, flags: PollFlags, patience: &Timeout) -> Result<(), RequestError> {
    loop {
        let mut fds = vec![PollFd::new(fd, flags)];
        fds.extend(patience.interrupt.map(|interrupt| PollFd::new(interrupt, PollFlags::POLLIN)));
        match poll(&mut fds, patience.until.poll_timeout()) {
            Ok(_) if fds.get(1).and_then(PollFd::any).unwrap_or(false) => {
                return Err(RequestError::Interrupted);
            }
            Ok(_) if fds[0].any().unwrap_or(false) => return Ok(()),
            Ok(_) if patience.until.has_passed() => return Err(RequestError::TimedOut),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(RequestError::Broken(errno.desc().to_owned())),
        }
    }
}

/// Waits for `duration`; an error when the patience ends before.
pub fn pause(duration: Duration, patience: &Timeout) -> Result<(), RequestError> {
    let end = BootTime::after(duration);
    loop {
        let timeout = end.min(patience.until).poll_timeout();
        let mut fds: Vec<PollFd> =
            patience.interrupt.iter().map(|interrupt| PollFd::new(*interrupt, PollFlags::POLLIN)).collect();
        match poll(&mut fds, timeout) {
            Ok(1..) => return Err(RequestError::Interrupted),
            _ if patience.until.has_passed() => return Err(RequestError::TimedOut),
            _ if end.has_passed() => return Ok(()),
            _ => {}
        }
    }
}
