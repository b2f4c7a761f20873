//! The socket: connecting to it, and reading and writing until a deadline.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, sockopt,
};
use rustix::net::SendFlags;

use super::dns::resolve;
use super::tls::{self, TlsStream};
use super::{Endpoint, RequestError, RequestResult, check, wait_ready};
use crate::lock::Timeout;
use crate::store::credentials::TlsFiles;

/// The socket, in non-blocking mode.
pub struct Stream {
    socket: Box<dyn ByteStream>,
    /// TLS may hold bytes that poll(2) does not see.
    pub is_encrypted: bool,
}

trait ByteStream: Read + Write + AsFd + Send {}

impl<T: Read + Write + AsFd + Send> ByteStream for T {}

impl Stream {
    /// Connects; with `tls` it is encrypted, or it is an error. `protocol` is what the encrypted connection is for (ALPN).
    pub fn connect(
        endpoint: &Endpoint,
        tls: Option<&TlsFiles>,
        protocol: Option<&str>,
        timeout: &Timeout,
    ) -> RequestResult<Stream> {
        let socket: Box<dyn ByteStream> = match (endpoint, tls) {
            (Endpoint::Unix(path), _) => {
                let address = UnixAddr::new(path).map_err(|error| RequestError::Broken(error.to_string()))?;
                Box::new(UnixStream::from(connect(AddressFamily::Unix, &address, timeout)?))
            }
            (Endpoint::Tcp { host, port }, None) => Box::new(connect_to(host, *port, timeout)?),
            (Endpoint::Tcp { host, port }, Some(files)) => {
                // Before anything is contacted.
                let session = tls::session(host, files, protocol)?;
                let socket = connect_to(host, *port, timeout)?;
                Box::new(TlsStream::connect(socket, session, files, timeout)?)
            }
        };
        Ok(Stream { socket, is_encrypted: tls.is_some() && matches!(endpoint, Endpoint::Tcp { .. }) })
    }

    /// Connects in plain, asks for TLS in the words of the protocol, and goes on encrypted. Whatever `ask` does not read is part
    /// of the handshake.
    #[cfg(feature = "postgres")]
    pub fn connect_by_request(
        host: &str,
        port: u16,
        files: &TlsFiles,
        ask: impl FnOnce(&mut Stream, &Timeout) -> RequestResult<()>,
        timeout: &Timeout,
    ) -> RequestResult<Stream> {
        // Before anything is contacted.
        let session = tls::session(host, files, None)?;
        let socket = connect_to(host, port, timeout)?;
        let same = socket.try_clone().map_err(|error| RequestError::Broken(error.to_string()))?;
        ask(&mut Stream { socket: Box::new(same), is_encrypted: false }, timeout)?;
        let socket = TlsStream::connect(socket, session, files, timeout)?;
        Ok(Stream { socket: Box::new(socket), is_encrypted: true })
    }

    /// Our bytes leave this host unencrypted.
    pub fn is_in_plain(&self) -> bool {
        let fd = self.as_fd().as_raw_fd();
        let ip = |address: nix::Result<SockaddrStorage>| -> Option<IpAddr> {
            let address = address.ok()?;
            let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
            v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().to_canonical()))
        };
        let (peer, own) = (ip(socket::getpeername(fd)), ip(socket::getsockname(fd)));
        !self.is_encrypted && peer != own && peer.is_some_and(|peer| !peer.is_loopback())
    }

    /// Writes what is to be sent together with the next bytes, which follow at once. See MSG_MORE in send(2).
    pub fn write_more(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.is_encrypted {
            true => self.socket.write(bytes),
            false => Ok(rustix::net::send(self, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)?),
        }
    }
}

impl AsFd for Stream {
    /// For poll(2), which sees encrypted bytes only.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

fn connect_to(host: &str, port: u16, timeout: &Timeout) -> RequestResult<TcpStream> {
    let mut failure = RequestError::broken("the name has no address");
    let addresses = resolve(host, port, timeout)?;
    for (tried, address) in addresses.iter().enumerate() {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        // One that answers nothing leaves time for the others.
        let share = timeout.share(addresses.len() - tried);
        match connect(family, &SockaddrStorage::from(*address), &share) {
            Ok(fd) => return Ok(fd.into()),
            Err(RequestError::Interrupted) => return Err(RequestError::Interrupted),
            Err(other) => failure = other,
        }
        if timeout.until.has_passed() {
            break;
        }
    }
    Err(failure)
}

fn connect(family: AddressFamily, address: &dyn SockaddrLike, timeout: &Timeout) -> RequestResult<OwnedFd> {
    let broken = |errno: Errno| RequestError::Broken(errno.desc().to_lowercase());
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(family, SockType::Stream, flags, None).map_err(broken)?;
    if family != AddressFamily::Unix {
        socket::setsockopt(&fd, sockopt::TcpNoDelay, &true).map_err(broken)?;
        // A waiter is silent for long; without this a server that lost power is never noticed.
        socket::setsockopt(&fd, sockopt::KeepAlive, &true).map_err(broken)?;
        socket::setsockopt(&fd, sockopt::TcpKeepIdle, &15).map_err(broken)?;
        socket::setsockopt(&fd, sockopt::TcpKeepInterval, &5).map_err(broken)?;
    }
    match socket::connect(fd.as_raw_fd(), address) {
        Ok(()) => Ok(fd),
        Err(Errno::EINPROGRESS) => {
            wait_ready(fd.as_fd(), PollFlags::POLLOUT, timeout)?;
            match socket::getsockopt(&fd, sockopt::SocketError).map_err(broken)? {
                0 => Ok(fd),
                errno => Err(broken(Errno::from_raw(errno))),
            }
        }
        Err(errno) => Err(broken(errno)),
    }
}

pub struct TimedStream<'a> {
    stream: &'a mut Stream,
    timeout: &'a Timeout<'a>,
    has_begun: bool,
    /// Why reading or writing failed, unless the connection just ended.
    pub cause: Option<RequestError>,
}

impl<'a> TimedStream<'a> {
    pub fn new(stream: &'a mut Stream, timeout: &'a Timeout<'a>) -> TimedStream<'a> {
        TimedStream { stream, timeout, has_begun: false, cause: None }
    }

    /// Waits until the stream is ready after an error that says so; fails after any other.
    fn recover(&mut self, error: io::Error, flags: PollFlags) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.wait(flags),
            io::ErrorKind::Interrupted => Ok(()),
            _ => {
                self.cause = tls::error_in(&error);
                Err(error)
            }
        }
    }

    fn wait(&mut self, flags: PollFlags) -> io::Result<()> {
        wait_ready(self.stream.as_fd(), flags, self.timeout).map_err(|failure| self.give_up(failure))
    }

    /// The first step takes what has arrived, whatever the time. Later steps are in time: a server may send without end,
    /// and then nothing waits.
    fn step(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.has_begun, true) {
            true => check(self.timeout).map_err(|failure| self.give_up(failure)),
            false => Ok(()),
        }
    }

    fn give_up(&mut self, failure: RequestError) -> io::Error {
        self.cause = Some(failure);
        io::Error::from(io::ErrorKind::TimedOut)
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // TLS may hold bytes, read and decrypted, of which poll(2) knows nothing.
        if !self.stream.is_encrypted {
            self.wait(PollFlags::POLLIN)?;
        }
        loop {
            self.step()?;
            match self.stream.socket.read(buffer) {
                Err(error) => self.recover(error, PollFlags::POLLIN)?,
                length => return length,
            }
        }
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.step()?;
            match self.stream.socket.write(bytes) {
                Err(error) => self.recover(error, PollFlags::POLLOUT)?,
                length => return length,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.stream.socket.flush() {
                Err(error) => self.recover(error, PollFlags::POLLOUT)?,
                Ok(()) => return Ok(()),
            }
        }
    }
}
