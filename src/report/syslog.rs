//! `--syslog`: events for the log of this host.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::Value;

use super::progress::LogPace;
use super::record::{EventLevel, Record};
use super::renderer::Renderer;
use super::wait_status::standing;
use crate::event::Event;
use crate::sanitize::sanitize;
use crate::user::UserAtHost;

/// Where systemd-journald takes fields: systemd's JOURNAL_NATIVE_PROTOCOL.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Where other daemons take lines: RFC 5424.
const SYSLOG: &str = "/dev/log";
const PROGRAM: &str = "redlock";
/// The facility `user`.
const FACILITY: u8 = 1;

/// Sends each event to the daemon that keeps this host's log. One that does not take it at once misses it: a lease is
/// renewed by the thread that would wait.
pub struct SyslogRenderer {
    wait: Mutex<LogPace>,
}

impl SyslogRenderer {
    pub fn new() -> SyslogRenderer {
        SyslogRenderer { wait: Mutex::new(LogPace::new()) }
    }
}

impl Renderer for SyslogRenderer {
    fn render(&self, event: &Event) -> Result<(), String> {
        let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        if standing(event).is_some_and(|standing| !wait.is_due(&standing)) {
            return Ok(());
        }
        let Some(record) = Record::of(event) else { return Ok(()) };
        let failed =
            |error| format!("cannot write to --syslog: neither {JOURNAL} nor {SYSLOG} takes it: {error}");
        send(&record).map_err(failed)
    }
}

fn send(record: &Record) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let sent = match socket.send_to(fields(record).as_bytes(), JOURNAL) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => {
            socket.send_to(line(record).as_bytes(), SYSLOG)
        }
        sent => sent,
    };
    match sent {
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

/// In RFC 5424.
fn line(record: &Record) -> String {
    let priority = FACILITY * 8 + severity(record);
    let time = humantime::format_rfc3339_millis(SystemTime::now());
    let UserAtHost { host, .. } = UserAtHost::own();
    // A field of the header is a word.
    let is_word = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    let (host, pid, event) = (if is_word { &host } else { "-" }, process::id(), record.event);
    format!("<{priority}>1 {time} {host} {PROGRAM} {pid} {event} - {}", message(record))
}

/// In the protocol of journald: a field in each line, again for each value of an array.
fn fields(record: &Record) -> String {
    let mut text = format!(
        "MESSAGE={}\nPRIORITY={}\nSYSLOG_IDENTIFIER={PROGRAM}\nSYSLOG_PID={}\nREDLOCK_EVENT={}\n",
        message(record),
        severity(record),
        process::id(),
        record.event
    );
    for (name, value) in &record.fields {
        let values = if let Value::Array(values) = value { &values[..] } else { std::slice::from_ref(value) };
        for value in values.iter().filter(|value| !value.is_null()) {
            text += &format!("REDLOCK_{}={}\n", name.to_uppercase(), shown(value));
        }
    }
    text
}

/// RFC 5424, section 6.2.1. Events that repeat while all is well are for people who look for them.
fn severity(record: &Record) -> u8 {
    match record.level {
        EventLevel::Error => 3,
        EventLevel::Warning => 4,
        EventLevel::Info if matches!(record.event, "lock_renewed" | "lock_held") => 7,
        EventLevel::Info => 6,
    }
}

/// On one line.
fn message(record: &Record) -> String {
    if let Some(message) = &record.message {
        return sanitize(message);
    }
    let known = record.fields.iter().filter(|(_, value)| !value.is_null());
    let fields: String = known.map(|(name, value)| format!(" {name}={}", quoted(&shown(value)))).collect();
    format!("{}{fields}", record.event)
}

/// Among others on a line.
fn quoted(text: &str) -> String {
    if text.contains([' ', '"', '=', '\\']) {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text.to_owned()
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => sanitize(text),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(","),
        other => sanitize(&other.to_string()),
    }
}
