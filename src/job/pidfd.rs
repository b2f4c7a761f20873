//! A process of this user that redlock did not start, held by a descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use thiserror::Error;

/// A process of this user that somebody else started, by a descriptor: its pid may be another's one day.
pub struct Pidfd {
    pub pid: i32,
    descriptor: OwnedFd,
}

/// Why a process cannot be process.
#[derive(Debug, Error)]
pub enum NotWatchable {
    #[error("there is no process {0}")]
    Missing(i32),
    #[error("process {0} has ended")]
    Ended(i32),
    #[error("process {0} belongs to another user")]
    Foreign(i32),
    #[error("process {0} is redlock itself")]
    Itself(i32),
    #[error("process {0} cannot be process: {1}")]
    Refused(i32, io::Error),
}

impl Pidfd {
    pub fn open(pid: i32) -> Result<Pidfd, NotWatchable> {
        if pid == nix::unistd::getpid().as_raw() {
            return Err(NotWatchable::Itself(pid));
        }
        let number = Pid::from_raw(pid).ok_or(NotWatchable::Missing(pid))?;
        let descriptor = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(errno) if errno.kind() == io::ErrorKind::Unsupported => {
                return Err(NotWatchable::Refused(pid, errno.into()));
            }
            // What is no error of ours: there is none, or it is the number of a thread.
            Err(_) => return Err(NotWatchable::Missing(pid)),
        };
        let process = Pidfd { pid, descriptor };
        let may_signal = kill(nix::unistd::Pid::from_raw(pid), None);
        match may_signal {
            _ if process.has_ended() => Err(NotWatchable::Ended(pid)),
            Err(Errno::EPERM) => Err(NotWatchable::Foreign(pid)),
            _ => Ok(process),
        }
    }

    /// A zombie has ended, too.
    pub fn has_ended(&self) -> bool {
        poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
    }

    /// Asks it to end, and wakes it when it is stopped; that it is gone already is no error.
    pub fn terminate(&self) {
        let _ = pidfd_send_signal(&self.descriptor, Signal::TERM);
        let _ = pidfd_send_signal(&self.descriptor, Signal::CONT);
    }

    /// A copy of our stderr, when it is the one of this process. Another one may be a pipe whose reader waits
    /// for its end, before this process goes on.
    pub fn shared_stderr(&self) -> Option<OwnedFd> {
        let file =
            |of: &str| fs::metadata(format!("/proc/{of}/fd/2")).ok().map(|found| (found.dev(), found.ino()));
        let is_shared = file("self").is_some_and(|ours| file(&self.pid.to_string()) == Some(ours));
        is_shared.then(|| io::stderr().as_fd().try_clone_to_owned().ok()).flatten()
    }
}

impl AsFd for Pidfd {
    /// Readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
