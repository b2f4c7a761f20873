//! `--log-file`: each line is added to a file, by a thread of its own once there is a lease to renew. A file system that
//! stands still holds up that thread alone.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::trusted_file::{refuse_foreign, without_link};

/// A line without an end counts as torn after so many looks, with this pause between them.
const LOOKS: u32 = 20;
const RETRY: Duration = Duration::from_millis(5);
/// Lines that wait to be written. What comes when there are more is missing in the file.
const MOST_WAITING: usize = 1000;
/// The last lines get this long, when redlock ends.
const LAST: Duration = Duration::from_secs(2);

/// Opened for each line, so that logrotate(8) can move it away.
#[derive(Clone)]
pub struct LogFile(Arc<Shared>);

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A thread writes the lines.
    has_thread: bool,
    waiting: Vec<String>,
    /// The number of lines that the thread has taken and not written.
    in_hand: usize,
    missing: usize,
    failure: Option<String>,
}

impl LogFile {
    pub fn new(path: PathBuf) -> LogFile {
        LogFile(Arc::new(Shared { path, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// From now on lines are written by a thread: this process makes no others from now on. Without one they are written
    /// by those who report, as before.
    pub fn start_thread(&self) {
        let file = self.clone();
        let writer = thread::Builder::new().name("log-file".to_owned());
        self.state().has_thread = true;
        if writer.spawn(move || file.write_lines()).is_err() {
            self.state().has_thread = false;
        }
    }

    /// Adds a line. Fails with why this one, or one before it, was not written.
    pub fn add(&self, line: String) -> Result<(), String> {
        let mut state = self.state();
        if !state.has_thread {
            drop(state);
            return self.append(&line);
        }
        if state.waiting.len() < MOST_WAITING {
            state.waiting.push(line);
            self.0.changed.notify_all();
        } else {
            state.missing += 1;
            state.failure.get_or_insert(format!("events are missing in {self}: its file system is too slow"));
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Waits for the lines that were added. Fails with why some are missing.
    pub fn finish(&self) -> Result<(), String> {
        let is_writing = |state: &mut State| state.has_thread && state.waiting.len() + state.in_hand > 0;
        let waited = self.0.changed.wait_timeout_while(self.state(), LAST, is_writing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.missing + state.waiting.len() + state.in_hand {
            0 => state.failure.take().map_or(Ok(()), Err),
            missing => Err(format!("{missing} events are missing in {self}: its file system is too slow")),
        }
    }

    /// The thread's work, without an end.
    fn write_lines(&self) {
        loop {
            let state = self.0.changed.wait_while(self.state(), |state| state.waiting.is_empty());
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            let lines = std::mem::take(&mut state.waiting);
            state.in_hand = lines.len();
            drop(state);
            for line in lines {
                let written = self.append(&line);
                let mut state = self.state();
                state.in_hand -= 1;
                state.failure = written.err().or_else(|| state.failure.take());
                self.0.changed.notify_all();
            }
        }
    }

    fn append(&self, line: &str) -> Result<(), String> {
        append(line, &self.0.path).map_err(|error| format!("cannot write to {self}: {error}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--log-file {}", self.0.path.display())
    }
}

/// In one write, so that the lines of several processes do not mix (write(2), `O_APPEND`).
fn append(line: &str, path: &Path) -> io::Result<()> {
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
    let whole = if is_torn { format!("\n{line}") } else { line.to_owned() };
    file.write_all(whole.as_bytes())
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
