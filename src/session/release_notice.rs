//! What `redlock release` tells the keeper of the lock, when that is on this host: so it need not wait for its
//! next renewal to see that there is nothing to keep, and knows that nobody took the lock away.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use uuid::{Uuid, uuid};

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

/// Of the names of keepers; drawn by lot.
const KEEPERS: Uuid = uuid!("7930e200-2a8e-4c9c-b626-5a711bbb4b60");

/// An abstract name (unix(7)): no file is left behind.
fn address(key: &Key, token: &OwnerToken) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(key, token))
}

/// A keeper and a release of different versions meet here, so this does not change. Everybody can list it, so the
/// token is only in its hash: SHA-1, see RFC 9562, section 5.5.
fn name(key: &Key, token: &OwnerToken) -> String {
    // There is no line break in a key.
    let of = format!("{key}\n{}", token.expose());
    format!("redlock-keeper-{}", Uuid::new_v5(&KEEPERS, of.as_bytes()))
}

#[test]
fn all_versions_meet_at_one_name() {
    let of = |key: &str, token: &str| -> Result<String, String> { Ok(name(&key.parse()?, &token.parse()?)) };
    let expected = "redlock-keeper-1cad97c9-bedb-5210-8932-394e11be50c9".to_owned();
    assert_eq!(of("deploy", "68413f2f-8e0b-49a8-8a46-e268c50c52f7"), Ok(expected));
}
