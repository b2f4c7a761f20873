//! A connection to one PostgreSQL server: transactions of several statements in one round trip.

use std::io::{Read, Write};

use uuid::Uuid;

use super::answer::text;
use super::error::ServerError;
use super::message::{BackendMessage, SSL_REQUEST, Statement, TableRow, frame, take};
use super::url::PostgresLogin;
use crate::lock::Timeout;
use crate::store::call_error::CallError;
use crate::store::credentials::TlsFiles;
use crate::store::net::stream::{Stream, TimedStream};
use crate::store::net::{Endpoint, RequestError};

/// The rows of each statement, up to the one that failed.
pub struct BatchAnswer {
    pub rows: Vec<Vec<TableRow>>,
    pub error: Option<ServerError>,
}

pub struct PostgresConnection {
    pub(super) stream: Stream,
    received: Vec<u8>,
    /// Transactions whose answers have not been read to their end.
    unanswered: usize,
    /// The pid of the server's process, as the server, or a pooler, named it at the login.
    pub(super) process: i32,
    /// A notification has arrived.
    pub is_notified: bool,
    /// This connection listens on our channel.
    pub is_listening: bool,
    is_cut_off: bool,
    /// A pooler lends server processes to this connection.
    is_pooled: bool,
    /// The server process has answered that it is our own.
    is_direct: bool,
    /// A transaction failed and is to be ended before the next one.
    has_failed: bool,
}

/// More rows than this are not read: nobody has so many locks.
const MOST_ROWS: usize = 1_000_000;

/// Fails, with all that follows it, unless the server process is the one of the login. A pooler that the URL does not name lends one
/// process after the other.
const IS_DIRECT: &str = "SELECT CASE WHEN pg_backend_pid() = $1::int THEN 1 ELSE ('another process: ' || pg_backend_pid())::int END";

/// Behind a pooler another client may have left an answer in the server process.
const ECHO: &str = "SELECT $1::text";

const ROLLBACK: &str = "ROLLBACK";

/// The text is not a number: the server process is another one.
const NOT_A_NUMBER: &str = "22P02";

fn pooled(error: ServerError) -> CallError {
    match error.code == NOT_A_NUMBER {
        true => CallError::Unusable(
            "a pooler such as PgBouncer is in between; name the server itself, or add pooler=yes to the URL"
                .to_owned(),
        ),
        false => error.into(),
    }
}

impl PostgresConnection {
    pub fn open(
        endpoint: &Endpoint,
        tls: Option<&TlsFiles>,
        login: &PostgresLogin,
        is_pooled: bool,
        timeout: &Timeout,
    ) -> Result<PostgresConnection, CallError> {
        let stream = match (endpoint, tls) {
            (Endpoint::Tcp { host, port }, Some(files)) => {
                Stream::connect_by_request(host, *port, files, ask_for_tls, timeout)?
            }
            _ => Stream::connect(endpoint, None, None, timeout)?,
        };
        let mut connection = PostgresConnection {
            stream,
            received: Vec::new(),
            unanswered: 0,
            process: 0,
            is_notified: false,
            is_listening: false,
            is_cut_off: false,
            is_pooled,
            is_direct: false,
            has_failed: false,
        };
        connection.log_in(login, timeout)?;
        Ok(connection)
    }

    /// True if a later request can follow on this connection, behind the answers that are still out.
    pub fn is_usable(&self) -> bool {
        !self.is_cut_off
    }

    /// The last transaction failed: the next one ends it first.
    pub fn end_transaction(&mut self) {
        self.has_failed = true;
    }

    /// Carries out statements in one round trip, behind everything that was sent before.
    pub fn run(&mut self, statements: &[Statement], timeout: &Timeout) -> Result<BatchAnswer, CallError> {
        // The transaction before may have failed half way.
        let may_be_open = std::mem::take(&mut self.has_failed) || self.unanswered > 0;
        if self.is_pooled {
            // PgBouncer before 1.21 lends a server process to the next client while it still owes this one an answer, if this
            // one dies after the first of two answers. The next client would read the second one as its own.
            self.await_answers(0, timeout)?;
        }
        let rollback = may_be_open.then(|| Statement::plain(ROLLBACK));
        // A transaction has its mode before its first query.
        let (begin, others) =
            statements.split_at(usize::from(statements.first().is_some_and(Statement::is_begin)));
        let proof = self.proof();
        let check = proof.as_ref().map(|(statement, _)| statement);
        let mut answer = self.exchange(rollback.iter().chain(begin).chain(check).chain(others), timeout)?;
        if rollback.is_some() && !answer.rows.is_empty() {
            answer.rows.remove(0);
        }
        if let Some((_, expected)) = proof {
            self.verify(&mut answer, begin.len(), &expected)?;
        }
        if self.is_pooled && answer.error.is_some() {
            // Others wait for the server process. The next batch does it again, if this one gets no answer.
            let rollback = Statement::plain(ROLLBACK);
            let _ = self.exchange([&rollback].into_iter(), timeout);
        }
        Ok(answer)
    }

    /// A statement that shows whose answer it is, and its one value.
    fn proof(&self) -> Option<(Statement, String)> {
        if self.is_pooled {
            let ours = Uuid::new_v4().simple().to_string();
            return Some((Statement::of(ECHO, [ours.clone()]), ours));
        }
        let is_direct = || (Statement::of(IS_DIRECT, [self.process.to_string()]), "1".to_owned());
        (!self.is_direct).then(is_direct)
    }

    /// Takes the answer to [`PostgresConnection::proof`] out of the others.
    fn verify(&mut self, answer: &mut BatchAnswer, place: usize, expected: &str) -> Result<(), CallError> {
        if answer.rows.len() > place {
            let rows = answer.rows.remove(place);
            if rows.first().is_some_and(|row| text(row, 0) == expected) {
                self.is_direct = !self.is_pooled;
                return Ok(());
            }
        } else if self.is_pooled && answer.error.is_some() {
            return Ok(());
        }
        self.is_cut_off = true;
        Err(match answer.error.take() {
            Some(error) => pooled(error),
            None => CallError::no_answer("it gave the answer to another request"),
        })
    }

    fn exchange<'a>(
        &mut self,
        statements: impl Iterator<Item = &'a Statement>,
        timeout: &Timeout,
    ) -> Result<BatchAnswer, CallError> {
        let mut packet = Vec::new();
        statements.for_each(|statement| statement.write(&mut packet));
        frame(&mut packet, b'S', |_| {});
        self.unanswered += 1;
        // A server that closed the connection may have said why.
        match self.write(&packet, timeout) {
            Ok(()) | Err(CallError::NoAnswer { .. }) => {}
            Err(error) => return Err(error),
        }
        self.await_answers(1, timeout)?;
        let mut answer = BatchAnswer { rows: Vec::new(), error: None };
        let (mut rows, mut count) = (Vec::new(), 0);
        loop {
            let message = self.read(timeout).map_err(|error| match answer.error.take() {
                Some(why) if why.is_fatal => why.into(),
                _ => error,
            })?;
            match message {
                BackendMessage::TableRow(row) => {
                    rows.push(row);
                    count += 1;
                    if count > MOST_ROWS {
                        self.is_cut_off = true;
                        return Err(CallError::no_answer("its answer has more than 1,000,000 rows"));
                    }
                }
                BackendMessage::Complete => answer.rows.push(std::mem::take(&mut rows)),
                BackendMessage::Error(error) => answer.error = Some(error),
                BackendMessage::Ready => break,
                _ => {}
            }
        }
        self.unanswered = 0;
        Ok(answer)
    }

    /// Reads answers to their ends, until so many are left.
    fn await_answers(&mut self, left: usize, timeout: &Timeout) -> Result<(), CallError> {
        while self.unanswered > left {
            if let BackendMessage::Ready = self.read(timeout)? {
                self.unanswered -= 1;
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, packet: &[u8], timeout: &Timeout) -> Result<(), CallError> {
        let mut timed = TimedStream::new(&mut self.stream, timeout);
        let written = timed.write_all(packet).and_then(|()| timed.flush());
        let Err(error) = written else { return Ok(()) };
        let cause = timed.cause.take();
        self.is_cut_off = true;
        Err(cause.unwrap_or_else(|| RequestError::broken(error.to_string())).into())
    }

    /// The next message of an answer.
    pub(super) fn read(&mut self, timeout: &Timeout) -> Result<BackendMessage, CallError> {
        loop {
            match self.next(timeout)? {
                BackendMessage::Notification => self.is_notified = true,
                message => return Ok(message),
            }
        }
    }

    fn next(&mut self, timeout: &Timeout) -> Result<BackendMessage, CallError> {
        loop {
            match take(&mut self.received) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => self.receive(timeout)?,
                Err(why) => {
                    self.is_cut_off = true;
                    return Err(CallError::no_answer(why));
                }
            }
        }
    }

    fn receive(&mut self, timeout: &Timeout) -> Result<(), CallError> {
        let mut buffer = [0; 8192];
        let mut timed = TimedStream::new(&mut self.stream, timeout);
        let length = timed.read(&mut buffer);
        match (timed.cause.take(), length) {
            (Some(failure @ (RequestError::TimedOut | RequestError::Interrupted)), _) => Err(failure.into()),
            (None, Ok(length)) if length > 0 => {
                self.received.extend(&buffer[..length]);
                Ok(())
            }
            (cause, _) => {
                self.is_cut_off = true;
                Err(cause.unwrap_or_else(|| RequestError::broken("the server closed the connection")).into())
            }
        }
    }

    /// Waits for a notification. `false` when the timeout ends first.
    pub fn wait(&mut self, timeout: &Timeout) -> Result<bool, CallError> {
        while !std::mem::take(&mut self.is_notified) {
            match self.next(timeout) {
                Ok(BackendMessage::Notification) => return Ok(true),
                Ok(BackendMessage::Error(error)) => {
                    self.is_cut_off = true;
                    return Err(error.into());
                }
                Ok(_) => {}
                Err(CallError::NoAnswer { .. }) if !self.is_cut_off => return Ok(false),
                Err(other) => return Err(other),
            }
        }
        Ok(true)
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        // Says goodbye where that does not wait, so that the server does not log a broken connection.
        if !self.is_cut_off {
            let _ = self.stream.write(&[b'X', 0, 0, 0, 4]);
            let _ = self.stream.flush();
        }
    }
}

/// Asks for TLS, and reads the one byte of the answer: what somebody sent behind it in plain is not taken for the server's.
fn ask_for_tls(stream: &mut Stream, timeout: &Timeout) -> Result<(), RequestError> {
    let mut timed = TimedStream::new(stream, timeout);
    let mut answer = [0];
    let asked = timed.write_all(&SSL_REQUEST).and_then(|()| timed.read_exact(&mut answer));
    match (timed.cause.take(), asked, answer) {
        (Some(failure), ..) => Err(failure),
        (None, Err(_), _) => Err(RequestError::broken("the server closed the connection")),
        (None, Ok(()), [b'S']) => Ok(()),
        (None, Ok(()), [b'N']) => Err(RequestError::Unusable(
            "it does not speak TLS; add sslmode=disable where that is safe".to_owned(),
        )),
        _ => Err(RequestError::broken("it does not speak the PostgreSQL protocol; is this the right port?")),
    }
}
