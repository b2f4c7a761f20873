//! A connection to Memcached, and what is in flight on it.

use std::io::{Read, Write};

use super::reply::{MemcachedReply, foreign};
use crate::lock::Timeout;
use crate::store::call_error::CallError;
use crate::store::net::stream::{Stream, TimedStream};
use crate::store::net::{Endpoint, RequestError};

/// One server. It is connected to with the first call.
pub struct MemcachedConnection {
    server: Endpoint,
    stream: Option<Stream>,
    /// The beginning of a reply that is not whole yet.
    unread: Vec<u8>,
    /// The requests whose replies did not come in time. They come first.
    late: u32,
    /// Something was sent.
    pub has_asked: bool,
}

impl MemcachedConnection {
    pub fn new(server: Endpoint) -> MemcachedConnection {
        MemcachedConnection { server, stream: None, unread: Vec::new(), late: 0, has_asked: false }
    }

    /// The reply to a request, which has one. Without a reply in time the connection stays: whatever undoes the request is sent
    /// behind it.
    pub fn call(&mut self, request: &[u8], timeout: &Timeout) -> Result<MemcachedReply, CallError> {
        self.send(request, timeout)?;
        self.next_reply(timeout)
    }

    /// The lines of the reply to a request for statistics.
    pub fn lines(&mut self, request: &[u8], timeout: &Timeout) -> Result<Vec<String>, CallError> {
        let mut lines = Vec::new();
        let mut reply = self.call(request, timeout)?;
        while let MemcachedReply::Line(line) = reply
            && line != "END"
        {
            lines.push(line);
            self.late += 1;
            reply = self.next_reply(timeout)?;
        }
        Ok(lines)
    }

    fn send(&mut self, request: &[u8], timeout: &Timeout) -> Result<(), CallError> {
        if self.stream.is_none() {
            (self.unread, self.late) = (Vec::new(), 0);
            self.stream = Some(Stream::connect(&self.server, None, None, timeout)?);
        }
        let Some(stream) = &mut self.stream else { return Err(foreign()) };
        self.has_asked = true;
        let mut timed = TimedStream::new(stream, timeout);
        let written = timed.write_all(request).and_then(|()| timed.flush());
        if let Err(error) = written {
            let cause = timed.cause.take().unwrap_or_else(|| RequestError::broken(error.to_string()));
            // Half a request may have been sent.
            self.stream = None;
            return Err(cause.into());
        }
        self.late += 1;
        Ok(())
    }

    /// The reply to the last request, behind those that are late.
    fn next_reply(&mut self, timeout: &Timeout) -> Result<MemcachedReply, CallError> {
        loop {
            let parsed = MemcachedReply::parse(&self.unread).inspect_err(|_| self.stream = None)?;
            let Some((reply, length)) = parsed else {
                self.read(timeout)?;
                continue;
            };
            self.unread.drain(..length);
            self.late -= 1;
            match reply {
                MemcachedReply::Error(error) if self.late == 0 => {
                    // The bytes behind it may be the rest of the request, read as another one.
                    self.stream = None;
                    return Err(error);
                }
                reply if self.late == 0 => return Ok(reply),
                _ => {}
            }
        }
    }

    fn read(&mut self, timeout: &Timeout) -> Result<(), CallError> {
        let Some(stream) = &mut self.stream else { return Err(foreign()) };
        let mut buffer = [0; 4096];
        let mut timed = TimedStream::new(stream, timeout);
        let why = match timed.read(&mut buffer) {
            Ok(0) => RequestError::broken("the connection was closed"),
            Ok(length) => {
                self.unread.extend(&buffer[..length]);
                return Ok(());
            }
            Err(error) => timed.cause.take().unwrap_or_else(|| RequestError::broken(error.to_string())),
        };
        if !matches!(why, RequestError::TimedOut | RequestError::Interrupted) {
            self.stream = None;
        }
        Err(why.into())
    }
}
