use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, sockopt,
};
use redis::{Cmd, Parser, Value};

use super::address::Endpoint;
use super::resolve::resolve;
use crate::lock::{Patience, StoreError};

/// A connection to one Redis server.
///
/// The redis crate writes the commands and reads the replies; the socket is ours, because a request
/// must be bounded by the end of a lease, end early when a signal comes, and can be followed by
/// another while its answer is still out: a release behind a take that a hung server has not answered.
pub struct Connection {
    stream: Stream,
    parser: Parser,
    /// Requests whose replies have not been read.
    unanswered: usize,
    /// Replies to what was sent before a query.
    passed_over: Vec<Value>,
}

/// Why there is no reply.
#[derive(Debug)]
pub enum Failure {
    /// The connection is of no more use.
    Broken(String),
    /// No reply in time. The connection can be used on: the late reply is skipped.
    TimedOut,
    Interrupted,
}

impl Failure {
    /// What it means for a request to the server with this name.
    pub fn of(self, name: &str) -> StoreError {
        let why = match self {
            Failure::Interrupted => return StoreError::Interrupted,
            Failure::Broken(why) => why,
            Failure::TimedOut => "no answer in time".to_owned(),
        };
        StoreError::Unreachable { store: name.to_owned(), why, transient: false }
    }
}

/// A server that sends more than this is no Redis of ours.
const LONGEST_REPLY: u64 = 64 << 20;

impl Connection {
    /// Connects, and sends nothing.
    pub fn open(endpoint: &Endpoint, patience: &Patience) -> Result<Connection, Failure> {
        let stream = Stream::connect(endpoint, patience)?;
        Ok(Connection { stream, parser: Parser::new(), unanswered: 0, passed_over: Vec::new() })
    }

    /// Sends a command and reads its reply; an error that the server reports is a reply.
    pub fn query(&mut self, command: &Cmd, patience: &Patience) -> Result<Value, Failure> {
        self.send(command, patience)?;
        while self.unanswered > 1 {
            self.skip_reply(patience)?;
        }
        let reply = self.read(patience)?;
        self.unanswered = 0;
        Ok(reply)
    }

    /// Reads a reply that nobody waited for.
    pub fn skip_reply(&mut self, patience: &Patience) -> Result<(), Failure> {
        let reply = self.read(patience)?;
        self.passed_over.push(reply);
        self.unanswered -= 1;
        Ok(())
    }

    /// The replies to what was sent and not waited for, each of them once.
    pub fn passed_over(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.passed_over)
    }

    /// Sends a command without waiting for its reply.
    pub fn send(&mut self, command: &Cmd, patience: &Patience) -> Result<(), Failure> {
        let packed = command.get_packed_command();
        let mut patient = Patient { stream: &mut self.stream, patience, cause: None };
        match patient.write_all(&packed) {
            Ok(()) => {
                self.unanswered += 1;
                Ok(())
            }
            // Half a request was perhaps sent: nothing can follow it.
            Err(error) => Err(match patient.cause {
                Some(Failure::Interrupted) => Failure::Interrupted,
                _ => Failure::Broken(error.to_string()),
            }),
        }
    }

    /// The next reply or message.
    pub fn read(&mut self, patience: &Patience) -> Result<Value, Failure> {
        let mut patient = Patient { stream: &mut self.stream, patience, cause: None };
        let parsed = self.parser.parse_value((&mut patient).take(LONGEST_REPLY));
        match (patient.cause, parsed) {
            (Some(failure), _) => Err(failure),
            (None, Ok(value)) => Ok(value),
            (None, Err(error)) if error.kind() == redis::ErrorKind::Parse => Err(Failure::Broken(
                "it does not speak the Redis protocol; is this the right port?".to_owned(),
            )),
            (None, Err(error)) if error.is_io_error() => {
                Err(Failure::Broken("the server closed the connection".to_owned()))
            }
            (None, Err(error)) => Err(Failure::Broken(error.to_string())),
        }
    }

    /// Whether an answer is out that was not waited for.
    pub fn is_waiting(&self) -> bool {
        self.unanswered > 0
    }
}

impl AsFd for Connection {
    /// Readable when something can be read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }
}

/// The socket, in non-blocking mode.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(endpoint: &Endpoint, patience: &Patience) -> Result<Stream, Failure> {
        match endpoint {
            Endpoint::Unix(path) => {
                let address = UnixAddr::new(path).map_err(|error| Failure::Broken(error.to_string()))?;
                connect(AddressFamily::Unix, &address, patience).map(|fd| Stream::Unix(fd.into()))
            }
            Endpoint::Tcp { host, port } => {
                let mut failure = Failure::Broken("the name has no address".to_owned());
                for address in resolve(host, *port, patience)? {
                    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
                    match connect(family, &SockaddrStorage::from(address), patience) {
                        Ok(fd) => return Ok(Stream::Tcp(fd.into())),
                        Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                        Err(other) => failure = other,
                    }
                }
                Err(failure)
            }
        }
    }

    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

fn connect(
    family: AddressFamily,
    address: &dyn SockaddrLike,
    patience: &Patience,
) -> Result<OwnedFd, Failure> {
    let broken = |errno: Errno| Failure::Broken(errno.desc().to_lowercase());
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(family, SockType::Stream, flags, None).map_err(broken)?;
    if family != AddressFamily::Unix {
        socket::setsockopt(&fd, sockopt::TcpNoDelay, &true).map_err(broken)?;
        // A waiter is silent for long; without this a server that lost power is never noticed.
        socket::setsockopt(&fd, sockopt::KeepAlive, &true).map_err(broken)?;
        socket::setsockopt(&fd, sockopt::TcpKeepIdle, &15).map_err(broken)?;
        socket::setsockopt(&fd, sockopt::TcpKeepInterval, &5).map_err(broken)?;
    }
    match socket::connect(std::os::fd::AsRawFd::as_raw_fd(&fd), address) {
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

/// Waits until `fd` is ready, at most as long as `patience` says.
pub fn ready(fd: BorrowedFd, flags: PollFlags, patience: &Patience) -> Result<(), Failure> {
    loop {
        // poll(2) takes whole milliseconds; one more keeps the loop from spinning.
        let millis = patience.until.left().as_millis();
        let timeout = PollTimeout::from(if millis == 0 && patience.until.has_passed() {
            0
        } else {
            (millis + 1).min(60_000) as u16
        });
        let mut fds = vec![PollFd::new(fd, flags)];
        fds.extend(patience.interrupt.map(|interrupt| PollFd::new(interrupt, PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) if fds.get(1).and_then(PollFd::any).unwrap_or(false) => return Err(Failure::Interrupted),
            Ok(_) if fds[0].any().unwrap_or(false) => return Ok(()),
            Ok(_) if patience.until.has_passed() => return Err(Failure::TimedOut),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Failure::Broken(errno.desc().to_owned())),
        }
    }
}

/// The stream, read and written as long as the patience lasts.
struct Patient<'a> {
    stream: &'a mut Stream,
    patience: &'a Patience<'a>,
    /// Why reading or writing failed, when that was not the stream's fault.
    cause: Option<Failure>,
}

impl Patient<'_> {
    fn wait(&mut self, flags: PollFlags) -> io::Result<()> {
        ready(self.stream.fd(), flags, self.patience).map_err(|failure| {
            self.cause = Some(failure);
            io::Error::from(io::ErrorKind::TimedOut)
        })
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait(PollFlags::POLLIN)?;
            match self.stream.read_now(buffer) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                other => return other,
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.write_now(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::POLLOUT)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
