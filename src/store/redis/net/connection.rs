use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use redis::{Cmd, Parser, ServerError, Value};

use super::endpoint::Endpoint;
use super::failure::RequestError;
use super::stream::{Patient, Stream};
use crate::lock::Timeout;
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
    /// Goes out in front of the first request, in one packet with it.
    login: Vec<u8>,
    /// The reply to it has not been read.
    is_logging_in: bool,
    refused: Option<ServerError>,
    is_astray: bool,
    /// So much of a reply that is not complete.
    received: u64,
    /// A reply of more bytes than this is an error.
    pub longest: u64,
}

/// Most replies are much shorter. What is sent without end is not kept.
pub const LONGEST_REPLY: u64 = 1 << 20;
/// Of one that lists what there is: the waiters of a lock, the slots of a cluster.
pub const LONGEST_LIST: u64 = 16 << 20;

impl Connection {
    /// Connects, with `tls` encrypted, and sends nothing.
    pub fn open(
        endpoint: &Endpoint,
        tls: Option<&TlsFiles>,
        patience: &Timeout,
    ) -> Result<Connection, RequestError> {
        let stream = Stream::connect(endpoint, tls, patience)?;
        Ok(Connection {
            stream,
            parser: Parser::new(),
            unanswered: 0,
            is_torn: false,
            is_known: false,
            passed_over: Vec::new(),
            login: Vec::new(),
            is_logging_in: false,
            refused: None,
            is_astray: false,
            received: 0,
            longest: LONGEST_REPLY,
        })
    }

    /// Logs in with the first request: nobody waits for the reply to this command alone. When the server refuses it,
    /// no reply on this connection counts.
    pub fn log_in(&mut self, command: &Cmd) {
        self.login = command.get_packed_command();
    }

    /// Sends a command and reads its reply; an error that the server reports is a reply.
    pub fn query(&mut self, command: &Cmd, patience: &Timeout) -> Result<Value, RequestError> {
        self.send(command, patience)?;
        let answer = self.answer(patience);
        match (&self.refused, answer) {
            (None, answer) => answer,
            (Some(_), Err(RequestError::Interrupted)) => Err(RequestError::Interrupted),
            (Some(error), answer) => {
                self.is_astray = !matches!(answer, Ok(Value::ServerError(_)) | Err(RequestError::Broken(_)));
                Err(RequestError::Refused(error.clone()))
            }
        }
    }

    /// The last of the replies that are out.
    fn answer(&mut self, patience: &Timeout) -> Result<Value, RequestError> {
        while self.unanswered > 1 {
            self.skip_reply(patience)?;
        }
        let reply = self.read(patience)?;
        self.unanswered = 0;
        Ok(reply)
    }

    /// Whether a request was or may be carried out although the login before it was refused: as the user that
    /// everybody is without one.
    pub fn is_astray(&self) -> bool {
        self.is_astray
    }

    /// Reads all replies that nobody waited for. A failure leaves the rest of them to the next time.
    pub fn skip_replies(&mut self, patience: &Timeout) -> Result<(), RequestError> {
        while self.unanswered > 0 {
            self.skip_reply(patience)?;
        }
        Ok(())
    }

    fn skip_reply(&mut self, patience: &Timeout) -> Result<(), RequestError> {
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
    pub fn send(&mut self, command: &Cmd, patience: &Timeout) -> Result<(), RequestError> {
        if self.is_torn {
            return Err(RequestError::Broken("a request was not sent to its end".to_owned()));
        }
        self.is_logging_in |= !self.login.is_empty();
        let mut packed = std::mem::take(&mut self.login);
        command.write_packed_command(&mut packed);
        let mut patient = Patient::new(&mut self.stream, patience);
        match patient.write_all(&packed).and_then(|()| patient.flush()) {
            Ok(()) => {
                self.unanswered += 1;
                Ok(())
            }
            Err(error) => {
                self.is_torn = true;
                Err(match patient.cause {
                    Some(RequestError::TimedOut) | None => RequestError::Broken(error.to_string()),
                    Some(failure) => failure,
                })
            }
        }
    }

    /// The next reply or message.
    pub fn read(&mut self, patience: &Timeout) -> Result<Value, RequestError> {
        if self.is_logging_in {
            if let Value::ServerError(error) = self.read_one(patience)? {
                self.refused = Some(error);
            }
            self.is_logging_in = false;
        }
        self.read_one(patience)
    }

    fn read_one(&mut self, patience: &Timeout) -> Result<Value, RequestError> {
        let mut patient = Patient::new(&mut self.stream, patience);
        let mut bounded = (&mut patient).take(self.longest.saturating_sub(self.received));
        let parsed = self.parser.parse_value(&mut bounded);
        self.received = self.longest - bounded.limit();
        match (patient.cause, parsed) {
            (Some(failure), _) => Err(failure),
            (None, Ok(value)) => {
                (self.is_known, self.received) = (true, 0);
                Ok(value)
            }
            (None, Err(error)) if error.is_io_error() && self.received >= self.longest => {
                let most = self.longest >> 20;
                Err(RequestError::Broken(format!(
                    "its answer is longer than {most} MiB; is it a Redis server?"
                )))
            }
            (None, Err(error)) if error.kind() == redis::ErrorKind::Parse => Err(RequestError::Broken(
                "it does not speak the Redis protocol; is this the right port?".to_owned(),
            )),
            // So does a server that speaks TLS.
            (None, Err(error)) if error.is_io_error() && !self.is_known && !self.stream.is_encrypted() => {
                let why = "the server closed the connection; if it speaks TLS, the URL begins with rediss://";
                Err(RequestError::Broken(why.to_owned()))
            }
            (None, Err(error)) if error.is_io_error() => {
                Err(RequestError::Broken("the server closed the connection".to_owned()))
            }
            (None, Err(error)) => Err(RequestError::Broken(error.to_string())),
        }
    }

    /// Whether what is sent leaves this host, and can be read on its way.
    pub fn is_in_plain(&self) -> bool {
        self.stream.is_in_plain()
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
