//! The messages of PostgreSQL's protocol, version 3.0.

use std::borrow::Cow;

use super::error::ServerError;

/// No answer is longer: a status with 20,000 waiters takes a part of it, and each row is a message of its own.
pub const LONGEST: usize = 1 << 20;

/// One SQL statement with its parameters, as text.
#[derive(Clone)]
pub struct Statement {
    sql: Cow<'static, str>,
    values: Vec<String>,
}

impl Statement {
    pub fn plain(sql: impl Into<Cow<'static, str>>) -> Statement {
        Statement { sql: sql.into(), values: Vec::new() }
    }

    pub fn of(sql: &'static str, values: impl IntoIterator<Item = impl Into<String>>) -> Statement {
        Statement { sql: sql.into(), values: values.into_iter().map(Into::into).collect() }
    }

    pub fn is_begin(&self) -> bool {
        self.sql.trim_start().starts_with("BEGIN")
    }

    /// Parse, Bind and Execute of a statement without a name: none is used twice.
    pub fn write(&self, packet: &mut Vec<u8>) {
        frame(packet, b'P', |body| {
            body.push(0);
            text(body, &self.sql);
            body.extend(0_i16.to_be_bytes());
        });
        frame(packet, b'B', |body| {
            body.extend([0, 0]);
            body.extend(0_i16.to_be_bytes());
            body.extend((self.values.len() as i16).to_be_bytes());
            for value in &self.values {
                body.extend((value.len() as i32).to_be_bytes());
                body.extend(value.as_bytes());
            }
            body.extend(0_i16.to_be_bytes());
        });
        frame(packet, b'E', |body| body.extend([0; 5]));
    }
}

/// Appends a message with this tag.
pub fn frame(packet: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    packet.push(tag);
    sized(packet, write);
}

/// Appends a body with its length before it.
fn sized(packet: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = packet.len();
    packet.extend([0; 4]);
    write(packet);
    let length = (packet.len() - begin) as u32;
    packet[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend(text.bytes().filter(|byte| *byte != 0));
    body.push(0);
}

/// The first message. It sets nothing that PgBouncer refuses.
pub fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut packet = Vec::new();
    sized(&mut packet, |body| {
        body.extend(0x0003_0000_u32.to_be_bytes());
        let settings = [
            ("user", user),
            ("database", database),
            ("client_encoding", "UTF8"),
            ("application_name", "redlock"),
        ];
        for (name, value) in settings {
            text(body, name);
            text(body, value);
        }
        body.push(0);
    });
    packet
}

/// Asks for TLS.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A row of an answer; `None` is NULL.
pub type TableRow = Vec<Option<String>>;

#[derive(Debug)]
pub enum BackendMessage {
    /// A step of the login: its number and its data.
    Authentication(u32, Vec<u8>),
    BackendKey(i32),
    TableRow(TableRow),
    /// A statement was carried out.
    Complete,
    Error(ServerError),
    Notification,
    Ready,
    /// Nothing that matters here.
    Other,
}

/// Takes the first message out of `received`; `None` when it is not complete. The error says what is wrong with it.
pub fn take(received: &mut Vec<u8>) -> Result<Option<BackendMessage>, &'static str> {
    let Some((head, rest)) = received.split_first_chunk::<5>() else { return Ok(None) };
    let (tag, length) = (head[0], u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize);
    if !tag.is_ascii_alphanumeric() || length < 4 {
        return Err("it does not speak the PostgreSQL protocol; is this the right port?");
    }
    if length > LONGEST {
        return Err("its answer is longer than 1 MiB; is it a PostgreSQL server?");
    }
    let Some(body) = rest.get(..length - 4) else { return Ok(None) };
    let message = read(tag, body).ok_or("its answer cannot be read; is it a PostgreSQL server?")?;
    received.drain(..length + 1);
    Ok(Some(message))
}

fn read(tag: u8, mut body: &[u8]) -> Option<BackendMessage> {
    Some(match tag {
        b'R' => BackendMessage::Authentication(u32::from_be_bytes(chunk(&mut body)?), body.to_vec()),
        b'K' => BackendMessage::BackendKey(i32::from_be_bytes(chunk(&mut body)?)),
        b'D' => {
            let columns = u16::from_be_bytes(chunk(&mut body)?);
            BackendMessage::TableRow((0..columns).map(|_| column(&mut body)).collect::<Option<_>>()?)
        }
        b'C' | b'I' => BackendMessage::Complete,
        b'E' => BackendMessage::Error(ServerError::read(body)),
        b'A' => BackendMessage::Notification,
        b'Z' => BackendMessage::Ready,
        _ => BackendMessage::Other,
    })
}

fn chunk<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = body.split_first_chunk::<N>()?;
    *body = rest;
    Some(*first)
}

fn column(body: &mut &[u8]) -> Option<Option<String>> {
    let length = i32::from_be_bytes(chunk(body)?);
    let Ok(length) = usize::try_from(length) else { return Some(None) };
    let value = body.get(..length)?;
    *body = &body[length..];
    Some(Some(String::from_utf8_lossy(value).into_owned()))
}

#[test]
fn broken_answers_are_errors() {
    for (bytes, is_error) in [
        (&b"Z\0\0\0\x05I"[..], false),
        (b"Z\0\0", false),
        (b"HTTP/1.1 400", true),
        (b"D\0\0\0\x06\xff\xff", true),
        (b"D\0\0\0\x0a\0\x01\0\0\0\x09", true),
        (b"R\0\0\0\x04", true),
        (b"Z\0\0\0\0", true),
    ] {
        assert_eq!(take(&mut bytes.to_vec()).is_err(), is_error, "{bytes:?}");
    }
}
