use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use redis::{Cmd, Parser, Value};

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::stream::{Patient, Stream};
use crate::lock::Patience;
use crate::store::TlsFiles;

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
    /// Half a request was perhaps sent: nothing can follow it.
    is_torn: bool,
    /// A reply was read: it is a Redis server.
    is_known: bool,
    /// Replies to what was sent before a query.
    passed_over: Vec<Value>,
}

/// A server that sends more than this is no Redis of ours.
const LONGEST_REPLY: u64 = 64 << 20;

impl Connection {
    /// Connects, with `tls` encrypted, and sends nothing.
    pub fn open(
        endpoint: &Endpoint,
        tls: Option<&TlsFiles>,
        patience: &Patience,
    ) -> Result<Connection, Failure> {
        let stream = Stream::connect(endpoint, tls, patience)?;
        Ok(Connection {
            stream,
            parser: Parser::new(),
            unanswered: 0,
            is_torn: false,
            is_known: false,
            passed_over: Vec::new(),
        })
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

    /// Reads all replies that nobody waited for. A failure leaves the rest of them to the next time.
    pub fn skip_replies(&mut self, patience: &Patience) -> Result<(), Failure> {
        while self.unanswered > 0 {
            self.skip_reply(patience)?;
        }
        Ok(())
    }

    fn skip_reply(&mut self, patience: &Patience) -> Result<(), Failure> {
        let reply = self.read(patience)?;
        self.passed_over.push(reply);
        self.unanswered -= 1;
        Ok(())
    }

    /// The replies to what was sent and not waited for, each of them once.
    pub fn passed_over(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.passed_over)
    }

    /// The latest of those that [`Connection::passed_over`] would give, which stays there.
    pub fn last_passed_over(&self) -> Option<&Value> {
        self.passed_over.last()
    }

    /// Sends a command without waiting for its reply. When that fails, the connection is of no more use, whatever
    /// the reason.
    pub fn send(&mut self, command: &Cmd, patience: &Patience) -> Result<(), Failure> {
        if self.is_torn {
            return Err(Failure::Broken("a request was not sent to its end".to_owned()));
        }
        let packed = command.get_packed_command();
        let mut patient = Patient::new(&mut self.stream, patience);
        match patient.write_all(&packed).and_then(|()| patient.flush()) {
            Ok(()) => {
                self.unanswered += 1;
                Ok(())
            }
            Err(error) => {
                self.is_torn = true;
                Err(match patient.cause {
                    Some(Failure::TimedOut) | None => Failure::Broken(error.to_string()),
                    Some(failure) => failure,
                })
            }
        }
    }

    /// The next reply or message.
    pub fn read(&mut self, patience: &Patience) -> Result<Value, Failure> {
        let mut patient = Patient::new(&mut self.stream, patience);
        let parsed = self.parser.parse_value((&mut patient).take(LONGEST_REPLY));
        match (patient.cause, parsed) {
            (Some(failure), _) => Err(failure),
            (None, Ok(value)) => {
                self.is_known = true;
                Ok(value)
            }
            (None, Err(error)) if error.kind() == redis::ErrorKind::Parse => Err(Failure::Broken(
                "it does not speak the Redis protocol; is this the right port?".to_owned(),
            )),
            // So does a server that speaks TLS.
            (None, Err(error)) if error.is_io_error() && !self.is_known && !self.stream.is_encrypted() => {
                let why = "the server closed the connection; if it speaks TLS, the URL begins with rediss://";
                Err(Failure::Broken(why.to_owned()))
            }
            (None, Err(error)) if error.is_io_error() => {
                Err(Failure::Broken("the server closed the connection".to_owned()))
            }
            (None, Err(error)) => Err(Failure::Broken(error.to_string())),
        }
    }

    /// Whether a request was cut off: what came before it is carried out, and nothing can follow.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }
}

impl AsFd for Connection {
    /// Readable when something can be read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }
}
