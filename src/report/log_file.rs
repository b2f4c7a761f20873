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
/// Lines that wait to be written. Events beyond that are missing in the file.
const MOST_WAITING: usize = 1000;
/// The last lines get this long, when redlock ends.
const LAST: Duration = Duration::from_secs(2);

/// Opened for each line, so that logrotate(8) can move it away.
#[derive(Clone)]
pub struct LogFile(Arc<SharedLog>);

struct SharedLog {
    path: PathBuf,
    backlog: Mutex<Backlog>,
    changed: Condvar,
}

/// The lines that are not in the file yet, and what went wrong.
#[derive(Default)]
struct Backlog {
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
        LogFile(Arc::new(SharedLog { path, backlog: Mutex::default(), changed: Condvar::new() }))
    }

    /// From now on a thread writes the lines, if the system allows one; before, the caller of [`LogFile::add`] does. To be
    /// called by a process that makes no others any more.
    pub fn start_thread(&self) {
        let file = self.clone();
        let writer = thread::Builder::new().name("log-file".to_owned());
        self.backlog().has_thread = true;
        if writer.spawn(move || file.write_lines()).is_err() {
            self.backlog().has_thread = false;
        }
    }

    /// Adds a line. Fails with why this one, or one before it, was not written.
    pub fn add(&self, line: String) -> Result<(), String> {
        let mut backlog = self.backlog();
        if !backlog.has_thread {
            drop(backlog);
            return self.append(&line);
        }
        if backlog.waiting.len() < MOST_WAITING {
            backlog.waiting.push(line);
            self.0.changed.notify_all();
        } else {
            backlog.missing += 1;
            backlog
                .failure
                .get_or_insert(format!("events are missing in {self}: its file system is too slow"));
        }
        backlog.failure.take().map_or(Ok(()), Err)
    }

    /// Waits for the lines that were added. Fails with why some are missing.
    pub fn finish(&self) -> Result<(), String> {
        let is_writing =
            |backlog: &mut Backlog| backlog.has_thread && backlog.waiting.len() + backlog.in_hand > 0;
        let waited = self.0.changed.wait_timeout_while(self.backlog(), LAST, is_writing);
        let (mut backlog, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match backlog.missing + backlog.waiting.len() + backlog.in_hand {
            0 => backlog.failure.take().map_or(Ok(()), Err),
            missing => Err(format!("{missing} events are missing in {self}: its file system is too slow")),
        }
    }

    /// The thread's work, without an end.
    fn write_lines(&self) {
        loop {
            let backlog = self.0.changed.wait_while(self.backlog(), |backlog| backlog.waiting.is_empty());
            let mut backlog = backlog.unwrap_or_else(PoisonError::into_inner);
            let lines = std::mem::take(&mut backlog.waiting);
            backlog.in_hand = lines.len();
            drop(backlog);
            for line in lines {
                let written = self.append(&line);
                let mut backlog = self.backlog();
                backlog.in_hand -= 1;
                backlog.failure = written.err().or_else(|| backlog.failure.take());
                self.0.changed.notify_all();
            }
        }
    }

    fn append(&self, line: &str) -> Result<(), String> {
        append(line, &self.0.path).map_err(|error| format!("cannot write to {self}: {error}"))
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.0.backlog.lock().unwrap_or_else(PoisonError::into_inner)
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
    // The last writer may have met a full disk in the middle of a line. One that is still writing ends it soon, and the
    // next one may be writing then: the file grows.
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
