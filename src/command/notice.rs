//! What `redlock release` tells the keeper of the lock, when that is on this host: so it need not wait for its
//! next renewal to see that there is nothing to keep, and knows that nobody took the lock away.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::lock::{Key, OwnerToken};

/// A step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The store is asked next. So whatever a renewal finds after that, this is known before.
    Releasing,
    Released,
}

impl Notice {
    const ALL: [Notice; 2] = [Notice::Releasing, Notice::Released];

    /// Only who knows the owner token can say it.
    fn text(self, token: &OwnerToken) -> String {
        format!("{self:?} {}", token.expose())
    }

    /// Tells the keeper; that there is none on this host is the normal case.
    pub fn tell(self, key: &Key, token: &OwnerToken) {
        let send = || -> io::Result<()> {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to_addr(self.text(token).as_bytes(), &address(key, token)?).map(drop)
        };
        let _ = send();
    }
}

/// Where a keeper hears of it.
pub struct Notices {
    socket: UnixDatagram,
    token: OwnerToken,
}

impl Notices {
    pub fn listen(key: &Key, token: &OwnerToken) -> io::Result<Notices> {
        let socket = UnixDatagram::bind_addr(&address(key, token)?)?;
        socket.set_nonblocking(true)?;
        Ok(Notices { socket, token: token.clone() })
    }

    /// The next notice, if one came.
    pub fn next(&self) -> Option<Notice> {
        let mut packet = [0; 600];
        loop {
            let length = self.socket.recv(&mut packet).ok()?;
            let said = |notice: &Notice| notice.text(&self.token).as_bytes() == &packet[..length];
            if let Some(notice) = Notice::ALL.into_iter().find(said) {
                return Some(notice);
            }
        }
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An abstract name (unix(7)): no file is left behind. Everybody can list it, so the token is only in its hash.
fn address(key: &Key, token: &OwnerToken) -> io::Result<SocketAddr> {
    let mut hasher = DefaultHasher::new();
    (key.as_str(), token.expose()).hash(&mut hasher);
    SocketAddr::from_abstract_name(format!("redlock-keeper-{:016x}", hasher.finish()))
}
