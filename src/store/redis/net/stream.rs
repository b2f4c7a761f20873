use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, sockopt,
};

use super::dns::resolve;
use super::endpoint::Endpoint;
use super::failure::RequestError;
use super::tls::{self, TlsStream};
use super::wait::{go_on, ready};
use crate::lock::Timeout;
use crate::store::TlsFiles;

/// The socket, in non-blocking mode.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Connects; with `tls` it is encrypted, or it is an error.
    pub fn connect(
        endpoint: &Endpoint,
        tls: Option<&TlsFiles>,
        patience: &Timeout,
    ) -> Result<Stream, RequestError> {
        match endpoint {
            Endpoint::Unix(path) => {
                let address = UnixAddr::new(path).map_err(|error| RequestError::Broken(error.to_string()))?;
                connect(AddressFamily::Unix, &address, patience).map(|fd| Stream::Unix(fd.into()))
            }
            Endpoint::Tcp { host, port } => match tls {
                None => connect_to(host, *port, patience).map(Stream::Tcp),
                Some(files) => {
                    // Before anything is contacted.
                    let session = tls::session(host, files)?;
                    let socket = connect_to(host, *port, patience)?;
                    let stream = TlsStream::shake_hands(socket, session, files, patience)?;
                    Ok(Stream::Tls(Box::new(stream)))
                }
            },
        }
    }

    /// Whether it is TLS, which may hold bytes that poll(2) does not see.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Whether what is sent leaves this host, and can be read on its way.
    pub fn is_in_plain(&self) -> bool {
        let Stream::Tcp(stream) = self else { return false };
        let (peer, own) = (stream.peer_addr(), stream.local_addr());
        peer.is_ok_and(|peer| {
            let is_here = own.is_ok_and(|own| own.ip() == peer.ip());
            !is_here && !peer.ip().to_canonical().is_loopback()
        })
    }

    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush_now(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// For poll(2), which sees encrypted bytes only.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.as_fd(),
        }
    }
}

/// Connects to the first of the host's addresses that answers.
fn connect_to(host: &str, port: u16, patience: &Timeout) -> Result<TcpStream, RequestError> {
    let mut failure = RequestError::Broken("the name has no address".to_owned());
    for address in resolve(host, port, patience)? {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        match connect(family, &SockaddrStorage::from(address), patience) {
            Ok(fd) => return Ok(fd.into()),
            Err(end @ (RequestError::Interrupted | RequestError::TimedOut)) => return Err(end),
            Err(other) => failure = other,
        }
    }
    Err(failure)
}

fn connect(
    family: AddressFamily,
    address: &dyn SockaddrLike,
    patience: &Timeout,
) -> Result<OwnedFd, RequestError> {
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
            ready(fd.as_fd(), PollFlags::POLLOUT, patience)?;
            match socket::getsockopt(&fd, sockopt::SocketError).map_err(broken)? {
                0 => Ok(fd),
                errno => Err(broken(Errno::from_raw(errno))),
            }
        }
        Err(errno) => Err(broken(errno)),
    }
}

/// The stream, read and written as long as the patience lasts.
pub struct Patient<'a> {
    stream: &'a mut Stream,
    patience: &'a Timeout<'a>,
    has_begun: bool,
    /// Why reading or writing failed, when it was not just that the connection ended.
    pub cause: Option<RequestError>,
}

impl<'a> Patient<'a> {
    /// For one exchange.
    pub fn new(stream: &'a mut Stream, patience: &'a Timeout<'a>) -> Patient<'a> {
        Patient { stream, patience, has_begun: false, cause: None }
    }

    /// What is to be done about an error of the stream: try again when it is ready, or give up.
    fn give_way(&mut self, error: io::Error, flags: PollFlags) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.wait(flags),
            io::ErrorKind::Interrupted => Ok(()),
            _ => {
                self.cause = tls::failure_in(&error);
                Err(error)
            }
        }
    }

    fn wait(&mut self, flags: PollFlags) -> io::Result<()> {
        ready(self.stream.fd(), flags, self.patience).map_err(|failure| self.give_up(failure))
    }

    /// The first step takes what has come, whatever the time. Each further one is to be in time: a server may send
    /// without end, and then nothing is ever waited for.
    fn go_on(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.has_begun, true) {
            true => go_on(self.patience).map_err(|failure| self.give_up(failure)),
            false => Ok(()),
        }
    }

    fn give_up(&mut self, failure: RequestError) -> io::Error {
        self.cause = Some(failure);
        io::Error::from(io::ErrorKind::TimedOut)
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // TLS may hold bytes, read and decrypted, of which poll(2) knows nothing.
        if !self.stream.is_encrypted() {
            self.wait(PollFlags::POLLIN)?;
        }
        loop {
            self.go_on()?;
            match self.stream.read_now(buffer) {
                Err(error) => self.give_way(error, PollFlags::POLLIN)?,
                length => return length,
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.go_on()?;
            match self.stream.write_now(bytes) {
                Err(error) => self.give_way(error, PollFlags::POLLOUT)?,
                length => return length,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.stream.flush_now() {
                Err(error) => self.give_way(error, PollFlags::POLLOUT)?,
                Ok(()) => return Ok(()),
            }
        }
    }
}
