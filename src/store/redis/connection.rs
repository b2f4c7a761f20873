//! A connection to one Redis server: requests and replies, each within its time.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use redis::{Cmd, Parser, Pipeline, Value};

use super::reply::error_reply;
use crate::lock::Timeout;
use crate::store::credentials::TlsFiles;
use crate::store::net::stream::{Stream, TimedStream};
use crate::store::net::{Endpoint, ErrorReply, RequestError, RequestResult};

/// A connection to one Redis server.
///
/// The redis crate writes the commands and reads the replies. The socket is ours: a request ends with a lease or early
/// when a signal comes, and another request can follow it while it is in flight, a release behind an acquisition that
/// a hung server has not answered. The crate's connections can do neither.
pub struct Connection {
    pub stream: Stream,
    parser: Parser,
    /// Requests whose replies have not been read.
    unanswered: usize,
    /// A part of a request was perhaps sent: nothing can follow it.
    pub is_cut_off: bool,
    /// A reply was read: it is a Redis server.
    has_replied: bool,
    /// Replies to what was sent before a query.
    skipped: Vec<Value>,
    /// A command that goes out in front of the first request, in one packet with it, which saves a round trip. When the
    /// server refuses it, no reply on this connection counts.
    pub login: Vec<u8>,
    /// The reply to the login has not been read.
    is_logging_in: bool,
    /// The error reply to the login.
    refused: Option<ErrorReply>,
    /// The bytes of a reply that is not complete, and its lines.
    received: u64,
    lines: usize,
    /// A reply of more bytes than this is an error.
    pub longest: u64,
}

/// Most replies are much shorter. A reply without end does not fill the memory.
pub const LONGEST_REPLY: u64 = 1 << 20;
/// For a reply that lists all waiters of a lock or all slots of a cluster.
pub const LONGEST_LIST: u64 = 16 << 20;
/// A short value takes some thirty times the bytes in memory: each has a line of its own at least.
const MOST_LINES: usize = 1_000_000;

impl Connection {
    /// Connects, with `tls` encrypted, and sends nothing.
    pub fn open(endpoint: &Endpoint, tls: Option<&TlsFiles>, timeout: &Timeout) -> RequestResult<Connection> {
        Ok(Connection {
            stream: Stream::connect(endpoint, tls, None, timeout)?,
            parser: Parser::new(),
            unanswered: 0,
            is_cut_off: false,
            has_replied: false,
            skipped: Vec::new(),
            login: Vec::new(),
            is_logging_in: false,
            refused: None,
            received: 0,
            lines: 0,
            longest: LONGEST_REPLY,
        })
    }

    /// Sends a command and reads its reply; an error that the server reports is a reply.
    pub fn query(&mut self, command: &Cmd, timeout: &Timeout) -> RequestResult<Value> {
        self.send(command, timeout)?;
        let answer = self.answer(timeout);
        match (self.refused.clone(), answer) {
            (None, answer) => answer,
            (Some(_), Err(RequestError::Interrupted)) => Err(RequestError::Interrupted),
            (Some(error), answer) => {
                let may_have_run =
                    !matches!(answer, Ok(Value::ServerError(_)) | Err(RequestError::Broken(_)));
                Err(RequestError::LoginRefused { error, may_have_run })
            }
        }
    }

    /// The reply to the last request.
    fn answer(&mut self, timeout: &Timeout) -> RequestResult<Value> {
        self.skip_replies(1, timeout)?;
        let reply = self.read(timeout)?;
        self.unanswered = 0;
        Ok(reply)
    }

    /// Reads the replies to all requests in flight but the last `left`. After a failure the next call goes on with the rest.
    pub fn skip_replies(&mut self, left: usize, timeout: &Timeout) -> RequestResult<()> {
        while self.unanswered > left {
            let reply = self.read(timeout)?;
            self.skipped.push(reply);
            self.unanswered -= 1;
        }
        Ok(())
    }

    /// The replies that were skipped, each of them once.
    pub fn take_skipped(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.skipped)
    }

    /// Sends a command without waiting for its reply. After any failure the connection is of no more use.
    pub fn send(&mut self, command: &Cmd, timeout: &Timeout) -> RequestResult<()> {
        self.send_packed(&command.get_packed_command(), 1, timeout)
    }

    /// Sends commands, as `send` does one. Returns the number of their replies; that to EXEC is the last one of a transaction.
    pub fn send_all(&mut self, commands: &Pipeline, timeout: &Timeout) -> RequestResult<usize> {
        let replies = commands.len() + if commands.is_transaction() { 2 } else { 0 };
        self.send_packed(&commands.get_packed_pipeline(), replies, timeout)?;
        Ok(replies)
    }

    fn send_packed(&mut self, commands: &[u8], replies: usize, timeout: &Timeout) -> RequestResult<()> {
        if self.is_cut_off {
            return Err(RequestError::broken("a request was sent in part only"));
        }
        self.is_logging_in |= !self.login.is_empty();
        let mut packed = std::mem::take(&mut self.login);
        packed.extend(commands);
        let mut timed = TimedStream::new(&mut self.stream, timeout);
        if let Err(error) = timed.write_all(&packed).and_then(|()| timed.flush()) {
            self.is_cut_off = true;
            return Err(match timed.cause {
                Some(RequestError::TimedOut) | None => RequestError::broken(error.to_string()),
                Some(failure) => failure,
            });
        }
        self.unanswered += replies;
        Ok(())
    }

    /// The next reply or message.
    pub fn read(&mut self, timeout: &Timeout) -> RequestResult<Value> {
        if self.is_logging_in {
            if let Value::ServerError(error) = self.read_one(timeout)? {
                self.refused = Some(error_reply(&error));
            }
            self.is_logging_in = false;
        }
        self.read_one(timeout)
    }

    fn read_one(&mut self, timeout: &Timeout) -> RequestResult<Value> {
        let mut timed = TimedStream::new(&mut self.stream, timeout);
        let counted = Lines { inner: &mut timed, count: &mut self.lines };
        let mut bounded = counted.take(self.longest.saturating_sub(self.received));
        let parsed = self.parser.parse_value(&mut bounded);
        self.received = self.longest - bounded.limit();
        let error = match (timed.cause, parsed) {
            (Some(failure), _) => return Err(failure),
            (None, Ok(value)) => {
                (self.has_replied, self.received, self.lines) = (true, 0, 0);
                return Ok(value);
            }
            (None, Err(error)) => error,
        };
        let may_be_tls = !self.has_replied && !self.stream.is_encrypted;
        Err(RequestError::Broken(match error.is_io_error() {
            true if self.received >= self.longest => {
                format!("its answer is longer than {} MiB; is it a Redis server?", self.longest >> 20)
            }
            true if self.lines > MOST_LINES => {
                format!("its answer has more than {MOST_LINES} lines; is it a Redis server?")
            }
            // A server that expects TLS closes the connection as well.
            true if may_be_tls => {
                "the server closed the connection; if it speaks TLS, the URL begins with rediss://".to_owned()
            }
            true => "the server closed the connection".to_owned(),
            false if error.kind() == redis::ErrorKind::Parse => {
                "it does not speak the Redis protocol; is this the right port?".to_owned()
            }
            false => error.to_string(),
        }))
    }
}

/// Counts the lines that are read through it, and fails when there are too many.
struct Lines<'a, R> {
    inner: R,
    count: &'a mut usize,
}

impl<R: Read> Read for Lines<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        *self.count += buffer[..length].iter().filter(|byte| **byte == b'\n').count();
        match *self.count > MOST_LINES {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(length),
        }
    }
}

impl AsFd for Connection {
    /// Readable when something can be read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
