//! MOVED and ASK: another server of the cluster has the slot.

use redis::ServerError;

use crate::store::net::{Endpoint, LONGEST_HOST};

/// An error reply that names the server to send the command to.
#[derive(Debug, PartialEq, Eq)]
pub enum Redirect {
    Moved {
        slot: u16,
        to: Endpoint,
    },
    /// The slot is being moved: this command only, behind ASKING.
    Ask {
        to: Endpoint,
    },
}

impl Redirect {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`, as the server `from` says it.
    pub fn read(error: &ServerError, from: &Endpoint) -> Option<Redirect> {
        let code = error.code();
        if code != "MOVED" && code != "ASK" {
            return None;
        }
        let (slot, place) = error.details()?.split_once(' ')?;
        let (host, port) = place.trim().rsplit_once(':')?;
        let to = endpoint(host, port.parse().ok()?, from)?;
        Some(match code {
            "ASK" => Redirect::Ask { to },
            _ => Redirect::Moved { slot: slot.parse().ok()?, to },
        })
    }
}

/// An endpoint that the server `from` names. One that does not know its own host gives none, or `?`: then the host is
/// that of `from`.
pub fn endpoint(host: &str, port: u16, from: &Endpoint) -> Option<Endpoint> {
    let host = match (host, from) {
        ("" | "?", Endpoint::Tcp { host, .. }) => host.clone(),
        ("" | "?", Endpoint::Unix(_)) => return None,
        (host, _) => host.to_owned(),
    };
    (port > 0 && host.len() <= LONGEST_HOST).then_some(Endpoint::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use redis::{Parser, Value};

    use super::*;

    fn read(line: &str) -> Option<Redirect> {
        let from = Endpoint::Tcp { host: "a".to_owned(), port: 1 };
        match Parser::new().parse_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => Redirect::read(&error, &from),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn redirects_are_read_and_nothing_else() {
        let at = |host: &str, port| Endpoint::Tcp { host: host.to_owned(), port };
        assert_eq!(read("MOVED 7 b:2"), Some(Redirect::Moved { slot: 7, to: at("b", 2) }));
        assert_eq!(read("MOVED 7 :2"), Some(Redirect::Moved { slot: 7, to: at("a", 2) }));
        assert_eq!(read("ASK 7 ::1:2"), Some(Redirect::Ask { to: at("::1", 2) }));
        for wrong in
            ["MOVED", "MOVED 7", "MOVED 7 b", "MOVED 7 b:0", "MOVED 70000 b:2", "ASK 7 b:x", "ERR 7 b:2"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read(&format!("ASK 1 {}:2", "x".repeat(300))), None);
    }
}
