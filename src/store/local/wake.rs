use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::poll::{PollFd, PollFlags, poll};
use uuid::Uuid;

use super::process::Processes;
use super::queue::Place;
use crate::clock::Deadline;
use crate::lock::{Patience, StoreError};

/// The socket on which a waiter is woken. Its name is abstract (unix(7)): no file is left behind.
pub struct Bell {
    socket: UnixDatagram,
    name: String,
}

impl Bell {
    /// A bell of a random name.
    ///
    /// # Errors
    ///
    /// The system has no socket to give.
    pub fn hang() -> io::Result<Bell> {
        let name = format!("redlock-{}", Uuid::new_v4());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        Ok(Bell { socket, name })
    }

    /// By which others ring it: it is stored with the place in the queue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until somebody rings, all processes of one of the `holders` are dead, or it is time to ask: `true`;
    /// `false` when the patience ends first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Interrupted`] and no other.
    pub fn wait(
        &self,
        holders: &[Processes],
        ask_at: Deadline,
        patience: &Patience,
    ) -> Result<bool, StoreError> {
        let mut watched: Vec<OwnedFd> = holders.iter().flat_map(Processes::watch).collect();
        loop {
            // Freed by the death of the last of a holder's processes: redlock and its guard.
            if holders.iter().any(Processes::are_dead) {
                return Ok(true);
            }
            let until = patience.until.min(ask_at);
            let fds = [Some(self.socket.as_fd()), patience.interrupt].into_iter().flatten();
            let fds = fds.chain(watched.iter().map(|fd| fd.as_fd()));
            let mut polled: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            let _ = poll(&mut polled, until.poll_timeout());
            let ready: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            if ready[0] {
                while self.socket.recv(&mut [0; 8]).is_ok() {}
                return Ok(true);
            }
            let first_process = if patience.interrupt.is_some() { 2 } else { 1 };
            if first_process == 2 && ready[1] {
                return Err(StoreError::Interrupted);
            }
            let mut dead = ready[first_process..].iter();
            watched.retain(|_| !dead.next().copied().unwrap_or(false));
            if ask_at.has_passed() {
                return Ok(true);
            }
            if patience.until.has_passed() {
                return Ok(false);
            }
        }
    }
}

/// Wakes waiters: the lock is theirs now, or they are the first in line. A bell that cannot be reached belongs
/// to a dead waiter, or to one that looks by itself before long.
pub fn ring(places: Vec<Place>) {
    let send = |place: &Place| -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(b".", &SocketAddr::from_abstract_name(&place.bell)?).map(drop)
    };
    for place in &places {
        let _ = send(place);
    }
}
