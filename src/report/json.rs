//! Events as lines of JSON, for programs: on stderr, or added to a file.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::human::standing;
use super::output::escaped;
use super::progress::LogPace;
use super::record::Record;
use super::renderer::Renderer;
use super::stderr;
use super::verbosity::{Verbosity, least_verbosity};
use crate::event::Event;
use crate::trusted_file::{refuse_foreign, without_link};
use crate::user::UserAtHost;

/// Of the names and the fields. One that goes or changes its meaning raises it; a new one does not.
const VERSION: u32 = 1;

/// A line without an end counts as torn after so many looks, with this pause between them.
const LOOKS: u32 = 20;
const RETRY: Duration = Duration::from_millis(5);

pub enum LogDestination {
    Stderr,
    /// Opened for each line, so that logrotate(8) can move it away.
    File(PathBuf),
}

/// Writes the events that the verbosity allows. Those that are for programs only come with every other but [`Verbosity::Quiet`].
pub struct JsonRenderer {
    destination: LogDestination,
    verbosity: Verbosity,
    wait: Mutex<LogPace>,
}

impl JsonRenderer {
    pub fn new(destination: LogDestination, verbosity: Verbosity) -> JsonRenderer {
        JsonRenderer { destination, verbosity, wait: Mutex::new(LogPace::new()) }
    }

    fn is_logged(&self, event: &Event) -> bool {
        self.verbosity > Verbosity::Quiet || least_verbosity(event) == Some(Verbosity::Quiet)
    }
}

impl Renderer for JsonRenderer {
    fn render(&self, event: &Event) -> Result<(), String> {
        let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_logged(event) || standing(event).is_some_and(|standing| !wait.is_due(&standing)) {
            return Ok(());
        }
        let Some(line) = line(event) else { return Ok(()) };
        match &self.destination {
            LogDestination::Stderr => stderr::write(&line),
            LogDestination::File(path) => append(line, path)
                .map_err(|error| format!("cannot write to --log-file {}: {error}", path.display()))?,
        }
        Ok(())
    }
}

/// In one write, so that the lines of several processes do not mix (write(2), `O_APPEND`).
fn append(line: String, path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW);
    let mut file = options.open(path).map_err(without_link)?;
    // In a folder where others may write, one of them may have put another thing there.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file; name another one"));
    }
    refuse_foreign(&file).map_err(io::Error::other)?;
    // The last writer may have met a full disk in the middle of a line. One that is still writing ends it soon, and the next
    // one may be writing then: the file grows.
    let torn = torn_at(path).unwrap_or(None);
    let stays_torn = |_| {
        thread::sleep(RETRY);
        torn_at(path).unwrap_or(None) == torn
    };
    let is_torn = torn.is_some() && (1..LOOKS).all(stays_torn);
    let line = if is_torn { format!("\n{line}") } else { line };
    file.write_all(line.as_bytes())
}

/// Where a file ends, if that is in the middle of a line.
fn torn_at(path: &Path) -> io::Result<Option<u64>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    let mut last = [b'\n'];
    if metadata.is_file() && metadata.len() > 0 {
        file.read_exact_at(&mut last, metadata.len() - 1)?;
    }
    Ok((last != [b'\n']).then_some(metadata.len()))
}

/// One line; `None` for what is not logged.
fn line(event: &Event) -> Option<String> {
    let Record { event, level, fields, message } = Record::of(event)?;
    let UserAtHost { user, host } = UserAtHost::own();
    let mut line = Map::new();
    line.insert("version".to_owned(), VERSION.into());
    line.insert("time".to_owned(), humantime::format_rfc3339_millis(SystemTime::now()).to_string().into());
    line.insert("event".to_owned(), event.into());
    line.insert("level".to_owned(), level.name().into());
    line.insert("host".to_owned(), host.into());
    line.insert("user".to_owned(), user.into());
    line.insert("pid".to_owned(), std::process::id().into());
    line.extend(fields);
    line.extend(message.map(|message| ("message".to_owned(), message.into())));
    Some(escaped(&Value::Object(line).to_string()) + "\n")
}
