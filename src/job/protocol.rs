//! What redlock and the processes that it forks say to each other: one packet, one message.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, send, shutdown, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::deadlines::Deadlines;
use crate::clock::Deadline;

/// What becomes of the processes that outlive the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverPolicy {
    /// The job has ended; they run on, unguarded.
    Leave,
    /// The same when the command exited; when a signal killed it, they are stopped.
    LeaveUnlessKilled,
    /// The job ends with the last of them.
    Await,
    /// They get SIGTERM, and SIGKILL some time later.
    Stop,
}

/// From redlock to the guard.
#[derive(Debug, Serialize, Deserialize)]
pub enum GuardRequest {
    /// Start the command, unless it is too late for that. A job that `ends_in_time` does so as planned.
    Start { env: Vec<(String, String)>, deadlines: Deadlines, ends_in_time: bool },
    /// The lease was extended.
    Extend(Deadlines),
    /// Pass a signal to the command, or to what it left behind, unless the caller's process group has had it.
    Signal(i32),
    /// The terminal has sent this signal to its foreground process group.
    SeenByGroup(i32),
    /// The same; and pass it to what left the group.
    SignalOutside(i32),
    /// End the whole job: SIGTERM now, SIGKILL at `kill_at`.
    Stop { kill_at: Deadline },
    /// Kill the whole job.
    Kill,
}

/// From the guard to redlock.
#[derive(Debug, Serialize, Deserialize)]
pub enum GuardReport {
    /// The command runs, and a watchdog where one is needed.
    Started { pid: i32, watchdog: Option<i32> },
    /// The command could not be executed: the `errno`, and what it means.
    NotStarted { errno: i32, message: String },
    /// Somebody killed the process that was to become the command.
    ProcessKilled,
    /// It was too late to start the command. If it had begun, it was killed.
    TooLate { has_begun: bool },
    /// The command ended before the job did: what it left behind is being awaited or stopped.
    CommandEnded(ExitStatus),
    /// The last message.
    JobEnd(JobEnd),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobEnd {
    pub status: ExitStatus,
    /// The deadline passed while the command ran: the guard stopped the job.
    pub expired: bool,
    /// The command left processes behind, and they run on.
    pub leftovers: bool,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    Exited(i32),
    Signaled(i32),
}

impl ExitStatus {
    /// What `$?` would be.
    pub fn as_shells_say(self) -> i32 {
        match self {
            ExitStatus::Exited(code) => code,
            ExitStatus::Signaled(signal) => 128 + signal,
        }
    }
}

/// One end of the line between the two; the other side's death is its end of file.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Channel(ours), Channel(theirs)))
    }

    pub fn try_clone(&self) -> io::Result<Channel> {
        Ok(Channel(self.0.try_clone()?))
    }

    /// Says nothing more: the other side reads an end of file.
    pub fn hang_up(&self) {
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Write);
    }

    /// Sends a message; to a dead peer it is lost, which the receiving side sees as end of file.
    pub fn send(&self, message: &impl Serialize) {
        let _ = self.pass(message, MsgFlags::empty());
    }

    pub fn send_long(&self, message: &impl Serialize) -> nix::Result<()> {
        self.pass(message, MsgFlags::empty())
    }

    /// Sends a message that is lost when the peer has left too many others unread: a later one says more.
    pub fn offer(&self, message: &impl Serialize) {
        let _ = self.pass(message, MsgFlags::MSG_DONTWAIT);
    }

    fn pass(&self, message: &impl Serialize, flags: MsgFlags) -> nix::Result<()> {
        let packet = postcard::to_allocvec(message).map_err(|_| Errno::EMSGSIZE)?;
        loop {
            // MSG_NOSIGNAL: the other side's death is no SIGPIPE here.
            match send(self.0.as_raw_fd(), &packet, flags | MsgFlags::MSG_NOSIGNAL) {
                Err(Errno::EINTR) => {}
                sent => return sent.map(drop),
            }
        }
    }

    /// The next message; `None` when the other side is gone.
    pub fn receive<M: DeserializeOwned>(&self) -> Option<M> {
        loop {
            let next = |packet: &mut [u8], flags| recv(self.0.as_raw_fd(), packet, flags);
            let whole = next(&mut [], MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC);
            let received = whole.and_then(|length| {
                let mut packet = vec![0; length];
                next(&mut packet, MsgFlags::empty()).map(|_| packet)
            });
            match received {
                Ok(packet) if packet.is_empty() => return None,
                Ok(packet) => return postcard::from_bytes(&packet).ok(),
                // A guard that ends with an order unread leaves an error, and behind it what it reported.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads a packet as both sides of the line do.
#[cfg(any(test, fuzzing))]
pub fn read_packet(packet: &[u8]) {
    let _ = (postcard::from_bytes::<GuardRequest>(packet), postcard::from_bytes::<GuardReport>(packet));
}
