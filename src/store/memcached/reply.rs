//! The replies of Memcached.

use crate::sanitize::sanitize;
use crate::store::call_error::CallError;

/// The longest line, and the longest value, that a reply to us can have.
const LONGEST_LINE: usize = 2048;
const LONGEST_VALUE: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum MemcachedReply {
    /// The item was stored, or deleted.
    Done {
        cas: u64,
    },
    /// Nothing was changed: the item is there already, was changed since, or is gone.
    NotDone,
    Missing,
    Value(StoredItem),
    /// A line that is an answer by itself, as that to `version`.
    Line(String),
    Error(CallError),
}

/// The item that is stored under a key.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredItem {
    pub value: Vec<u8>,
    pub cas: u64,
    /// How many seconds it stays; `None` for ever.
    pub left: Option<u64>,
}

impl MemcachedReply {
    /// The reply that `bytes` begin with, and its length; nothing while more of it has to come.
    pub fn parse(bytes: &[u8]) -> Result<Option<(MemcachedReply, usize)>, CallError> {
        let Some(end) = bytes.windows(2).take(LONGEST_LINE).position(|pair| pair == b"\r\n") else {
            return if bytes.len() > LONGEST_LINE { Err(foreign()) } else { Ok(None) };
        };
        let line = std::str::from_utf8(&bytes[..end]).map_err(|_| foreign())?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let reply = match word {
            "HD" => MemcachedReply::Done { cas: flag(rest, 'c').unwrap_or(0) },
            "NS" | "EX" | "NF" => MemcachedReply::NotDone,
            "EN" => MemcachedReply::Missing,
            "VA" => return value(rest, &bytes[end + 2..], end + 2),
            "STAT" | "END" | "VERSION" => MemcachedReply::Line(line.to_owned()),
            "ERROR" => MemcachedReply::Error(CallError::Unusable(
                "it does not know the meta commands; redlock needs Memcached 1.6 or later".to_owned(),
            )),
            "CLIENT_ERROR" if rest.contains("unauthenticated") => MemcachedReply::Error(CallError::Denied(
                "it wants a login (-Y), and redlock has none for Memcached".to_owned(),
            )),
            "CLIENT_ERROR" => MemcachedReply::Error(CallError::Unusable(shown(rest))),
            "SERVER_ERROR" => MemcachedReply::Error(CallError::transient(shown(rest))),
            _ => return Err(foreign()),
        };
        Ok(Some((reply, end + 2)))
    }
}

fn value(header: &str, bytes: &[u8], line: usize) -> Result<Option<(MemcachedReply, usize)>, CallError> {
    let (length, flags) = header.split_once(' ').unwrap_or((header, ""));
    let length: usize = length.parse().ok().filter(|length| *length <= LONGEST_VALUE).ok_or_else(foreign)?;
    let Some(value) = bytes.get(..length + 2) else { return Ok(None) };
    let value = value.strip_suffix(b"\r\n").ok_or_else(foreign)?.to_vec();
    // -1 is for ever.
    let found = StoredItem { value, cas: flag(flags, 'c').unwrap_or(0), left: flag(flags, 't') };
    Ok(Some((MemcachedReply::Value(found), line + length + 2)))
}

fn flag(flags: &str, name: char) -> Option<u64> {
    flags.split(' ').find_map(|flag| flag.strip_prefix(name))?.parse().ok()
}

fn shown(text: &str) -> String {
    format!("it says '{}'", sanitize(text))
}

pub fn foreign() -> CallError {
    CallError::no_answer("it does not speak the protocol of Memcached; is this the right port?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let found = |left| MemcachedReply::Value(StoredItem { value: b"a\r\nb".to_vec(), cas: 7, left });
        for (bytes, reply) in [
            ("HD c12\r\n", MemcachedReply::Done { cas: 12 }),
            ("HD\r\n", MemcachedReply::Done { cas: 0 }),
            ("NS c0\r\n", MemcachedReply::NotDone),
            ("EN\r\n", MemcachedReply::Missing),
            ("VA 4 c7 t30\r\na\r\nb\r\n", found(Some(30))),
            ("VA 4 c7 t-1\r\na\r\nb\r\n", found(None)),
            ("STAT pid 1\r\n", MemcachedReply::Line("STAT pid 1".to_owned())),
        ] {
            assert_eq!(
                MemcachedReply::parse(format!("{bytes}HD").as_bytes()),
                Ok(Some((reply, bytes.len())))
            );
            // A reply in parts is waited for.
            for end in 0..bytes.len() {
                assert_eq!(MemcachedReply::parse(&bytes.as_bytes()[..end]), Ok(None), "{bytes} {end}");
            }
        }
    }

    #[test]
    fn what_is_no_memcached_is_an_error() {
        let long = "x".repeat(LONGEST_LINE + 1);
        for bytes in [
            "-ERR unknown command 'mg'\r\n",
            "VA 9999999999 c1\r\n",
            "VA x\r\n",
            "VA 1 c1\r\nabcd\r\n",
            &long,
        ] {
            assert_eq!(MemcachedReply::parse(bytes.as_bytes()), Err(foreign()), "{bytes}");
        }
        let login = MemcachedReply::parse(b"CLIENT_ERROR unauthenticated\r\n");
        assert!(matches!(login, Ok(Some((MemcachedReply::Error(CallError::Denied(_)), _)))));
    }
}
