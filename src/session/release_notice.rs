//! The notice of `redlock release` to a background holder on this host: it learns of the release before its next renewal,
//! and knows that nobody took the lock away.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use uuid::{Uuid, uuid};

use crate::lock::{Key, OwnerToken};

/// A step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Sent before the store is asked, so the holder knows it before a renewal finds the lock released.
    Releasing,
    Released,
}

impl Notice {
    const ALL: [Notice; 2] = [Notice::Releasing, Notice::Released];

    /// A hash of the owner token in it proves that the sender may release the lock. Once the holder is dead, every user may
    /// bind its name and read this, so the token itself is not in it.
    fn text(self, token: &OwnerToken) -> String {
        format!("{self:?} {}", Uuid::new_v5(&NAMESPACE, token.expose().as_bytes()))
    }

    /// Sends the notice. Most often this host has no background holder, and nobody gets it.
    pub fn send(self, key: &Key, token: &OwnerToken) {
        let send = || -> io::Result<()> {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to_addr(self.text(token).as_bytes(), &address(key, token)?).map(drop)
        };
        let _ = send();
    }
}

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

/// The namespace of the names, chosen at random.
const NAMESPACE: Uuid = uuid!("7930e200-2a8e-4c9c-b626-5a711bbb4b60");

/// An abstract name (unix(7)): no file is left behind.
fn address(key: &Key, token: &OwnerToken) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(key, token))
}

/// This does not change, as a holder and a release may be of different versions. Every user can list the name, so it
/// has only a hash of the token: SHA-1, see RFC 9562, section 5.5.
fn name(key: &Key, token: &OwnerToken) -> String {
    // A key has no line feed in it.
    let hashed = format!("{key}\n{}", token.expose());
    format!("redlock-keeper-{}", Uuid::new_v5(&NAMESPACE, hashed.as_bytes()))
}

#[test]
fn a_notice_does_not_show_the_token() {
    let token = OwnerToken::random();
    assert!(Notice::ALL.iter().all(|notice| !notice.text(&token).contains(token.expose())));
}

#[test]
fn all_versions_meet_at_one_name() {
    let of = |key: &str, token: &str| -> Result<String, String> { Ok(name(&key.parse()?, &token.parse()?)) };
    let expected = "redlock-keeper-1cad97c9-bedb-5210-8932-394e11be50c9".to_owned();
    assert_eq!(of("deploy", "68413f2f-8e0b-49a8-8a46-e268c50c52f7"), Ok(expected));
}
