//! A process by a descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::kill;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::poll::is_readable;

/// True if no process has this pid in this PID namespace. Nobody sees that in a namespace other than its own.
pub fn is_gone(pid: u32, namespace: Option<u64>) -> bool {
    let gone = || kill(nix::unistd::Pid::from_raw(pid as i32), None) == Err(nix::errno::Errno::ESRCH);
    namespace.is_some() && namespace == own_pid_namespace() && gone()
}

/// The number of the namespace in which this process has its pid.
pub fn own_pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino())
}

/// A process of this user by a descriptor: its pid may be another's one day.
pub struct Pidfd {
    pub pid: i32,
    descriptor: OwnedFd,
}

impl Pidfd {
    /// Fails with the reason why it cannot be watched.
    pub fn open(pid: i32) -> Result<Pidfd, String> {
        if pid == nix::unistd::getpid().as_raw() {
            return Err(format!("process {pid} is redlock itself"));
        }
        let missing = || format!("process {pid} does not exist");
        let number = Pid::from_raw(pid).ok_or_else(missing)?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).map_err(|errno| match errno {
            // Or it is the number of a thread.
            Errno::SRCH | Errno::INVAL | Errno::NOENT => missing(),
            _ => format!("process {pid} cannot be watched: {}", io::Error::from(errno)),
        })?;
        let process = Pidfd { pid, descriptor };
        match kill(nix::unistd::Pid::from_raw(pid), None) {
            _ if process.has_ended() => Err(format!("process {pid} has ended")),
            Err(nix::errno::Errno::EPERM) => Err(format!("process {pid} belongs to another user")),
            _ => Ok(process),
        }
    }

    /// A zombie has ended, too.
    pub fn has_ended(&self) -> bool {
        is_readable(self.as_fd())
    }

    /// Asks it to end, and wakes it when it is stopped. A process that is gone needs neither.
    pub fn terminate(&self) {
        let _ = pidfd_send_signal(&self.descriptor, Signal::TERM);
        self.wake();
    }

    /// Wakes it when somebody stopped it.
    pub fn wake(&self) {
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
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
