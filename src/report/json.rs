//! Events as lines of JSON, for programs: on stderr, or added to a file.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::log_file::LogFile;
use super::output::escaped;
use super::progress::LogPace;
use super::record::Record;
use super::renderer::Renderer;
use super::stderr;
use super::verbosity::{Verbosity, least_verbosity};
use super::wait_status::standing;
use crate::event::Event;
use crate::user::UserAtHost;

/// The rules of the names and the fields. One that goes or changes its meaning raises it; a new one does not.
const VERSION: u32 = 1;

pub enum LogDestination {
    Stderr,
    File(LogFile),
}

/// Writes the events that the verbosity allows. Events that are for programs only come with every verbosity but
/// [`Verbosity::Quiet`].
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
            LogDestination::File(file) => file.add(line)?,
        }
        Ok(())
    }

    fn start_thread(&self) {
        if let LogDestination::File(file) = &self.destination {
            file.start_thread();
        }
    }

    fn finish(&self) -> Result<(), String> {
        match &self.destination {
            LogDestination::Stderr => Ok(()),
            LogDestination::File(file) => file.finish(),
        }
    }
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
