//! The facts that INFO and CONFIG GET tell about a server.

use std::collections::HashMap;

use redis::{InfoDict, Value};

use super::probe::Asking;
use crate::doctor::{Check, Findings};
use crate::lock::Result;
use crate::store::redis::reply::{in_short, items, text};

/// The facts about a server, as far as this user may see them: services that run Redis for others often forbid
/// CONFIG, and an ACL may forbid INFO.
pub struct Facts {
    info: InfoDict,
    settings: HashMap<String, String>,
}

/// One at a time: several in one CONFIG GET are possible from Redis 7 on.
const SETTINGS: [&str; 5] = ["maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save"];

impl Facts {
    /// Asks the server, and leaves out what it does not tell this user; only a missing reply is an error.
    pub fn ask(asking: &mut Asking) -> Result<Facts> {
        let reply = asking.ask(&redis::cmd("INFO"))?;
        let info = InfoDict::new(&text(Some(&reply)));
        let mut settings = HashMap::new();
        for name in SETTINGS {
            let reply = asking.ask(redis::cmd("CONFIG").arg("GET").arg(name))?;
            if matches!(reply, Value::ServerError(_)) {
                break;
            }
            if let [name, value] = &items(reply)[..] {
                settings.insert(text(Some(name)), in_short(&text(Some(value))).to_owned());
            }
        }
        Ok(Facts { info, settings })
    }

    pub fn info(&self, field: &str) -> Option<&str> {
        match self.info.find(&field) {
            Some(Value::SimpleString(text)) => Some(in_short(text.trim())),
            _ => None,
        }
    }

    /// The same, where it is a whole number; `None` for anything else.
    pub fn info_number(&self, field: &str) -> Option<u64> {
        self.info(field)?.parse().ok()
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Reports what could not be seen, and why.
    pub fn unseen(&self, report: &mut Findings, check: Check, what: &str, advice: impl Into<String>) {
        let why = match (self.info.is_empty(), self.settings.is_empty()) {
            (true, true) => "the server does not answer INFO and CONFIG GET to this user",
            (true, false) => "the server does not answer INFO to this user",
            (false, true) => "the server does not answer CONFIG GET to this user",
            (false, false) => "the server does not say it",
        };
        report.unknown(check, format!("{what}: {why}"), advice);
    }
}
