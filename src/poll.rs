//! Waiting: for descriptors, for a time, and between two attempts.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::clock::Deadline;
#[cfg(test)]
use crate::clock::fake;

/// True if `fd` has something to read now, an end of file included.
pub fn is_readable(fd: BorrowedFd) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
}

/// True if a write to `fd` would not block: now, or `within` this time. A terminal is not writable while somebody else
/// writes to it (tty_is_writelocked() of Linux).
pub fn is_writable(fd: BorrowedFd, within: Duration) -> bool {
    let deadline = Deadline::after(within);
    loop {
        match poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], deadline.poll_timeout()) {
            Err(Errno::EINTR) => {}
            writable => return writable == Ok(1),
        }
    }
}

/// Waits until one of `fds` is readable, a signal comes, or `deadline` has passed.
pub fn wait_any(fds: &[BorrowedFd], deadline: Deadline) {
    let mut fds: Vec<PollFd> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    let _ = poll(&mut fds, deadline.poll_timeout());
}

/// Waits until one of `fds` is readable, at most until `deadline`. Returns which of them are; a signal may end the wait
/// with none.
pub fn wait_readable<const N: usize>(fds: [BorrowedFd; N], deadline: Deadline) -> [bool; N] {
    let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    #[cfg(test)]
    if fake::now().is_some() && poll(&mut fds, PollTimeout::ZERO) == Ok(0) {
        fake::move_to(deadline);
    }
    // A wait without an end needs no look at the clock from time to time.
    let timeout = if deadline == Deadline::NEVER { PollTimeout::NONE } else { deadline.poll_timeout() };
    let _ = poll(&mut fds, timeout);
    fds.map(|fd| fd.any().unwrap_or(false))
}

/// `duration`, give or take a half at random, so that many waiters do not act in step.
pub fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.5 + fastrand::f64())
}

/// Pauses between attempts: each is twice as long as the one before, with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// The first pause is about `shortest`, none is much over `longest`.
    pub fn new(shortest: Duration, longest: Duration) -> Backoff {
        Backoff { shortest, longest, next: shortest }
    }

    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest).max(self.shortest);
        jittered(pause)
    }

    /// Makes the next pause a short one, after an attempt that succeeded.
    pub fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[test]
fn pauses_grow_to_the_longest_and_start_over() {
    let [shortest, longest] = [20, 100].map(Duration::from_millis);
    let mut backoff = Backoff::new(shortest, longest);
    for expected in [20, 40, 80, 100, 100] {
        let pause = backoff.pause();
        let expected = Duration::from_millis(expected);
        assert!(pause >= expected / 2 && pause <= expected * 3 / 2, "{pause:?} for {expected:?}");
    }
    backoff.reset();
    assert!(backoff.pause() <= shortest * 3 / 2);
}

/// A terminal stays writable beside another writer that never pauses.
#[test]
fn a_terminal_with_another_writer_is_writable() -> nix::Result<()> {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    let terminal = nix::pty::openpty(None, None)?;
    let (mut reader, ours) = (File::from(terminal.master), File::from(terminal.slave));
    let Ok(mut other) = ours.try_clone() else { return Err(Errno::last()) };
    std::thread::spawn(move || while reader.read(&mut [0; 4096]).is_ok() {});
    std::thread::spawn(move || while other.write_all(&[b'x'; 4096]).is_ok() {});
    for _ in 0..1000 {
        assert!(is_writable(ours.as_fd(), Duration::from_secs(10)));
    }
    Ok(())
}
