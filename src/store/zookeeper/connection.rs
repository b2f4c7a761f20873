//! A connection to one server: the session that it is for, requests and answers, each within its time.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use super::error::ZooKeeperResult;
use super::jute::{Malformed, Reader, Writer};
use super::message::{Answer, Code, Operation};
use super::session::{PASSWORD, Session};
use crate::clock::BootTime;
use crate::lock::Timeout;
use crate::poll::is_readable;
use crate::store::call_error::CallError;
use crate::store::credentials::TlsFiles;
use crate::store::net::stream::{Stream, TimedStream};
use crate::store::net::{Endpoint, RequestError, check};

/// For a session of one server.
pub struct SessionConnection {
    stream: Stream,
    /// The bytes that have arrived and are not yet a whole packet.
    inbox: Vec<u8>,
    /// The number of the next request.
    number: i32,
    /// A part of a request was perhaps sent: nothing can follow it.
    pub is_broken: bool,
    /// Something that is watched has changed.
    pub has_news: bool,
    /// The last transaction that was seen.
    pub seen: i64,
    /// When something was sent last.
    pub sent: BootTime,
    /// When something arrived last.
    pub heard: BootTime,
}

/// The beginning of a connection.
pub struct Greeting<'a> {
    /// The one to be continued; otherwise a new one begins.
    pub session: Option<&'a Session>,
    /// The timeout of a new session.
    pub timeout: Duration,
    /// A server that is behind this transaction refuses us.
    pub seen: i64,
    /// The login of the scheme "digest".
    pub login: Option<&'a str>,
}

/// The answer to a request, or its error.
pub struct TransactionReply {
    /// The transaction.
    pub number: i64,
    pub answer: Result<Answer, Code>,
}

/// For an answer that lists all waiters of a lock.
const LONGEST: usize = 16 << 20;
/// For the answers to all requests of an exchange: no server fills the memory.
const LONGEST_EXCHANGE: usize = 64 << 20;
/// The answer to a greeting is much shorter.
const LONGEST_WELCOME: usize = 1 << 10;
const CHUNK: usize = 8 << 10;
const MOST_EVENTS: usize = 1000;

/// Numbers of packets that do not answer a request.
const EVENT: i32 = -1;
const PING: i32 = -2;
const AUTH: i32 = -4;
/// The types of the packets with these numbers.
const PING_TYPE: i32 = 11;
const AUTH_TYPE: i32 = 100;

const SILENT: &str = "no answer in time; is it a ZooKeeper?";
/// The error of a server that ends the connection at the greeting.
const TURNED_AWAY: &str = "it ended the connection; it has lost its leader, allows no more connections from this host (maxClientCnxns), or speaks TLS (zks://) or no ZooKeeper at all";

impl SessionConnection {
    /// Connects and begins, or continues, a session: `None` when that has ended.
    pub fn open(
        endpoint: &Endpoint,
        tls: Option<&TlsFiles>,
        greeting: &Greeting,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<(SessionConnection, Session)>> {
        let stream = Stream::connect(endpoint, tls, None, timeout)?;
        let mut connection = SessionConnection {
            stream,
            inbox: Vec::new(),
            number: 1,
            is_broken: false,
            has_news: false,
            seen: greeting.seen,
            sent: BootTime::now(),
            heard: BootTime::now(),
        };
        connection.send(&greeting.packets(), timeout)?;
        let welcome = connection.packet(LONGEST_WELCOME, timeout).map_err(|error| match error {
            CallError::NoAnswer { .. } if !connection.is_broken => CallError::no_answer(SILENT),
            CallError::NoAnswer { .. } if connection.inbox.is_empty() => CallError::transient(TURNED_AWAY),
            other => other,
        })?;
        let mut reader = Reader::new(&welcome);
        let (_version, millis, id) = (reader.int()?, reader.int()?, reader.long()?);
        let password = reader.bytes()?;
        if millis <= 0 {
            return Ok(None);
        }
        let password: [u8; PASSWORD] = password.try_into().map_err(|_| Malformed)?;
        let session = Session { id, password, timeout: Duration::from_millis(millis.unsigned_abs().into()) };
        Ok(Some((connection, session)))
    }

    /// Sends these requests at once, and returns their answers. After [`CallError::Interrupted`] and a timeout the
    /// connection can still be used: late answers are skipped.
    pub fn exchange(
        &mut self,
        operations: &[Operation],
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<TransactionReply>> {
        let first = self.number;
        let mut packets = Vec::new();
        for operation in operations {
            packets.extend(operation.packet(self.number));
            // From 1 again, as negative numbers are not for requests.
            self.number = self.number.checked_add(1).unwrap_or(1);
        }
        self.send(&packets, timeout)?;
        let (mut expected, mut left) = (first, LONGEST_EXCHANGE);
        let mut replies = Vec::with_capacity(operations.len());
        for operation in operations {
            loop {
                let packet = self.packet(LONGEST, timeout)?;
                let mut reader = Reader::new(&packet);
                let header = self.read_header(&mut reader)?;
                // Others are late answers to earlier requests.
                let Some((_, transaction, code)) = header.filter(|(number, ..)| *number == expected) else {
                    check(timeout)?;
                    continue;
                };
                let answer = match code {
                    Code(0) => operation.answer(&mut reader).map_err(|malformed| self.give_up(malformed))?,
                    code => Err(code),
                };
                if let Err(code @ (Code::SESSION_EXPIRED | Code::SESSION_MOVED)) = answer {
                    self.is_broken = true;
                    return Err(code.into());
                }
                let Some(now_left) = left.checked_sub(packet.len()) else {
                    self.is_broken = true;
                    return Err(CallError::no_answer("its answers are too long"));
                };
                left = now_left;
                replies.push(TransactionReply { number: transaction, answer });
                break;
            }
            expected = expected.checked_add(1).unwrap_or(1);
        }
        Ok(replies)
    }

    /// Tells the server that the session goes on.
    pub fn ping(&mut self, timeout: &Timeout) -> ZooKeeperResult<()> {
        let mut writer = Writer::packet();
        writer.int(PING);
        writer.int(PING_TYPE);
        self.send(&writer.finish(), timeout)
    }

    /// Waits for the change of something that is watched. `false` when the timeout ends first.
    pub fn await_news(&mut self, timeout: &Timeout) -> ZooKeeperResult<bool> {
        while !std::mem::take(&mut self.has_news) {
            match self.packet(LONGEST, timeout) {
                Ok(packet) => drop(self.read_header(&mut Reader::new(&packet))?),
                Err(CallError::Interrupted) => return Err(CallError::Interrupted),
                Err(_) if !self.is_broken => return Ok(false),
                Err(error) => return Err(error),
            }
            match check(timeout) {
                Err(RequestError::TimedOut) => return Ok(std::mem::take(&mut self.has_news)),
                checked => checked?,
            }
        }
        Ok(true)
    }

    /// Sends the end of the session, and does not wait for an answer.
    pub fn send_close(&mut self, timeout: &Timeout) {
        let packet = Operation::Close.packet(self.number);
        let _ = self.send(&packet, timeout);
        self.is_broken = true;
    }

    /// The server has not ended it.
    pub fn is_open(&mut self) -> bool {
        // Little has arrived since the last answer, unless somebody sends without end.
        for _ in 0..MOST_EVENTS {
            if self.is_broken || !is_readable(self.stream.as_fd()) {
                return !self.is_broken;
            }
            match self.packet(LONGEST, &Timeout::of(Duration::ZERO)) {
                Ok(packet) if self.read_header(&mut Reader::new(&packet)).is_ok() => {}
                // A part of a packet has arrived.
                Err(_) if !self.is_broken => return true,
                _ => self.is_broken = true,
            }
        }
        false
    }

    /// Number, transaction and error of an answer; `None` for any other packet.
    fn read_header(&mut self, reader: &mut Reader) -> ZooKeeperResult<Option<(i32, i64, Code)>> {
        let header = (|| Ok((reader.int()?, reader.long()?, Code(reader.int()?))))();
        let (number, transaction, code) = header.map_err(|malformed| self.give_up(malformed))?;
        self.seen = self.seen.max(transaction);
        match number {
            EVENT => self.has_news = true,
            AUTH if code != Code(0) => {
                self.is_broken = true;
                return Err(Code::AUTH_FAILED.into());
            }
            PING | AUTH => {}
            _ => return Ok(Some((number, transaction, code))),
        }
        Ok(None)
    }

    /// The packets that follow cannot be told apart.
    fn give_up(&mut self, malformed: Malformed) -> CallError {
        self.is_broken = true;
        malformed.into()
    }

    fn send(&mut self, packets: &[u8], timeout: &Timeout) -> ZooKeeperResult<()> {
        if self.is_broken {
            return Err(CallError::no_answer("a request was sent in part only"));
        }
        self.sent = BootTime::now();
        let mut timed = TimedStream::new(&mut self.stream, timeout);
        let sent = timed.write_all(packets).and_then(|()| timed.flush());
        sent.map_err(|error| {
            self.is_broken = true;
            timed.cause.map_or_else(|| CallError::no_answer(error.to_string()), CallError::from)
        })
    }

    /// The next packet, without its length.
    fn packet(&mut self, longest: usize, timeout: &Timeout) -> ZooKeeperResult<Vec<u8>> {
        let mut timed = TimedStream::new(&mut self.stream, timeout);
        let mut chunk = [0; CHUNK];
        loop {
            if let Some((length, rest)) = self.inbox.split_first_chunk() {
                let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                if length > longest {
                    return Err(self.give_up(Malformed));
                }
                if let Some(packet) = rest.get(..length) {
                    let packet = packet.to_vec();
                    self.inbox.drain(..4 + length);
                    self.heard = BootTime::now();
                    return Ok(packet);
                }
            }
            match timed.read(&mut chunk) {
                Ok(0) => {
                    self.is_broken = true;
                    return Err(CallError::transient("it ended the connection"));
                }
                Ok(length) => self.inbox.extend(&chunk[..length]),
                Err(error) => {
                    let cause = timed.cause.take();
                    self.is_broken =
                        !matches!(cause, Some(RequestError::TimedOut | RequestError::Interrupted));
                    return Err(
                        cause.map_or_else(|| CallError::transient(error.to_string()), CallError::from)
                    );
                }
            }
        }
    }
}

impl Greeting<'_> {
    fn packets(&self) -> Vec<u8> {
        let mut connect = Writer::packet();
        // The version of the protocol.
        connect.int(0);
        connect.long(self.seen);
        let timeout = self.session.map_or(self.timeout, |session| session.timeout);
        connect.int(i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX));
        connect.long(self.session.map_or(0, |session| session.id));
        connect.bytes(&self.session.map_or([0; PASSWORD], |session| session.password));
        // A server without a leader is of no use.
        connect.flag(false);
        let mut packets = connect.finish();
        if let Some(login) = self.login {
            let mut auth = Writer::packet();
            auth.int(AUTH);
            auth.int(AUTH_TYPE);
            auth.int(0);
            auth.text("digest");
            auth.text(login);
            packets.extend(auth.finish());
        }
        packets
    }
}
