//! Free ports on the loopback interface.

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt,
};

/// A port of the loopback interface on which nobody listens, and which nobody else is given: not between a look for it
/// and the start of a server, and not while that server is down.
///
/// A socket is bound to it that never listens. Who sets SO_REUSEADDR, as redis-server does, can listen there all the
/// same.
pub struct Port {
    pub number: u16,
    _socket: OwnedFd,
}

impl Port {
    pub fn reserve() -> Port {
        let bound = || {
            let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
            setsockopt(&socket, sockopt::ReuseAddr, &true)?;
            bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0))?;
            let number = getsockname::<SockaddrIn>(socket.as_raw_fd())?.port();
            nix::Result::Ok(Port { number, _socket: socket })
        };
        bound().expect("a free port")
    }
}

/// A port that stays free until the end of all tests, unless the caller's own server listens there.
pub fn free_port() -> u16 {
    let port = Port::reserve();
    let number = port.number;
    mem::forget(port);
    number
}
