//! `--metrics-file`: what the runs of a host add up to, in Prometheus' text format for the textfile collector of
//! node_exporter.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::prometheus::{Exposition, Family};
use super::renderer::Renderer;
use crate::clock::Deadline;
use crate::event::{Event, RunOutcome, Summary};
use crate::poll::jittered;

/// Adds each run to the file. Writers on one host take turns, and the file is replaced as a whole.
pub struct MetricsFile {
    path: PathBuf,
}

/// For the turn of this writer. A job's result does not depend on it, its caller waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(5);

/// In bytes; a file of so many keys with long names is much shorter.
const LONGEST: u64 = 64 << 20;

/// In seconds; a wait or a hold may be of milliseconds, or of days.
const BUCKETS: [&str; 11] = ["0.01", "0.1", "0.5", "1", "5", "30", "60", "300", "1800", "7200", "86400"];

const LAST_END: &str = "redlock_last_end_timestamp_seconds";

/// In the order in which they stand in the file.
const FAMILIES: [Family; 9] = [
    ("redlock_acquisitions_total", "counter", "Requests for a lock, by what came of them."),
    ("redlock_runs_total", "counter", "Calls of run and acquire, by how they ended."),
    ("redlock_wait_seconds", "histogram", "Time from the request to the grant, or to the end of the wait."),
    ("redlock_hold_seconds", "histogram", "Time from the grant to the release or the loss."),
    ("redlock_renewals_total", "counter", "Leases extended."),
    ("redlock_renewals_failed_total", "counter", "Renewals without an answer, or refused."),
    ("redlock_locks_lost_total", "counter", "Locks lost while they were held."),
    (LAST_END, "gauge", "When the last call ended, in Unix time."),
    (
        "redlock_last_success_timestamp_seconds",
        "gauge",
        "When the last call that was a success ended, in Unix time.",
    ),
];

impl MetricsFile {
    pub fn new(path: PathBuf) -> MetricsFile {
        MetricsFile { path }
    }

    /// The file whose lock is a writer's turn. It is beside the metrics, as those are replaced, and stays: a lock that is
    /// removed locks nobody out.
    fn open_turn(&self) -> io::Result<File> {
        open(&beside(&self.path, ".lock"), OpenOptions::new().append(true))
    }

    fn failed(&self, error: io::Error) -> String {
        format!("cannot update --metrics-file {}: {error}", self.path.display())
    }

    fn add(&self, summary: &Summary) -> io::Result<()> {
        let turn = self.open_turn()?;
        // Whoever may read it could hold everyone up.
        turn.set_permissions(Permissions::from_mode(0o600))?;
        take_turn(&turn)?;
        let mut metrics = Metrics::parse(&read(&self.path)?)?;
        metrics.add(summary);
        let new = beside(&self.path, ".new");
        // A writer that was killed left it.
        let _ = fs::remove_file(&new);
        let mut file = open(&new, OpenOptions::new().write(true).create_new(true))?;
        // Whatever the umask says: node_exporter runs as another user.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(metrics.text().as_bytes())?;
        fs::rename(new, &self.path)
    }
}

impl Renderer for MetricsFile {
    fn render(&self, event: &Event) -> Result<(), String> {
        let Event::Ended { summary } = event else { return Ok(()) };
        self.add(summary).map_err(|error| self.failed(error))
    }

    fn probe(&self) -> Result<(), String> {
        self.open_turn().map(drop).map_err(|error| self.failed(error))
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Not through a link of others.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn take_turn(file: &File) -> io::Result<()> {
    let until = Deadline::after(PATIENCE);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if until.has_passed() => {
                return Err(io::Error::other(
                    "another process has held its .lock for too long; see who with fuser(1)",
                ));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(jittered(RETRY)),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) if file.metadata()?.is_file() => {
            file.take(LONGEST).read_to_string(&mut text)?;
            if text.len() as u64 == LONGEST { Err(foreign()) } else { Ok(text) }
        }
        Ok(_) => Err(foreign()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(text),
        Err(error) => Err(error),
    }
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a metrics file of redlock's; name another one")
}

/// The sums of all calls so far.
#[derive(Default)]
struct Metrics(Exposition);

impl Metrics {
    /// Refuses a file that somebody else wrote: it would be lost.
    fn parse(text: &str) -> io::Result<Metrics> {
        let is_comment =
            |line: &&str| line.starts_with("# HELP redlock_") || line.starts_with("# TYPE redlock_");
        let series = text.lines().filter(|line| !is_comment(line)).map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?)).filter(|_| series.starts_with("redlock_"))
        });
        series.collect::<Option<_>>().map(|series| Metrics(Exposition::of(series))).ok_or_else(foreign)
    }

    fn add(&mut self, summary: &Summary) {
        let outcome = summary.outcome();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64().round();
        for key in &summary.keys {
            let (was_granted, was_lost) = (summary.granted.contains(key), summary.lost.contains(key));
            let key = &self.0.key(key.as_str(), LAST_END);
            // An increase is seen from a series that was there before.
            self.count("redlock_acquisitions_total", key, &[("outcome", "acquired")], was_granted.into());
            for other in RunOutcome::ALL {
                let labels = [("outcome", other.name())];
                let is_it = other == outcome;
                if !other.is_of_command() {
                    // A lock that the job inherited was not asked for.
                    let failed = is_it && !was_granted && !summary.started;
                    self.count("redlock_acquisitions_total", key, &labels, failed.into());
                }
                self.count("redlock_runs_total", key, &labels, is_it.into());
            }
            if was_granted || !summary.started {
                self.observe("redlock_wait_seconds", key, summary.waited);
            }
            if let Some(held) = summary.held.filter(|_| was_granted) {
                self.observe("redlock_hold_seconds", key, held);
            }
            self.count("redlock_renewals_total", key, &[], summary.renewals.into());
            self.count("redlock_renewals_failed_total", key, &[], summary.failed_renewals.into());
            self.count("redlock_locks_lost_total", key, &[], was_lost.into());
            *self.0.series(LAST_END, key, &[], 0.0) = now;
            if outcome == RunOutcome::Success {
                *self.0.series("redlock_last_success_timestamp_seconds", key, &[], 0.0) = now;
            }
        }
    }

    fn count(&mut self, name: &str, key: &str, labels: &[(&str, &str)], by: f64) {
        *self.0.series(name, key, labels, 0.0) += by;
    }

    fn observe(&mut self, name: &str, key: &str, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = format!("{name}_bucket");
        for limit in BUCKETS.into_iter().chain(["+Inf"]) {
            let is_in = limit.parse::<f64>().is_ok_and(|limit| seconds <= limit);
            self.count(&bucket, key, &[("le", limit)], is_in.into());
        }
        self.count(&format!("{name}_sum"), key, &[], seconds);
        self.count(&format!("{name}_count"), key, &[], 1.0);
    }

    fn text(&self) -> String {
        self.0.text(&FAMILIES)
    }
}

#[cfg(test)]
mod tests {
    use super::super::prometheus::MOST_KEYS;
    use super::*;
    use crate::lock::{FencingToken, Key, Mode, OwnerToken, Request, Ttl};

    fn summary(key: &str) -> Summary {
        let key: Key = key.parse().expect("a key");
        let request = Request::new(key.clone(), Mode::Exclusive, OwnerToken::random(), Ttl::DEFAULT);
        let mut summary = Summary::default();
        summary.note(&Event::Requested { requests: &[request], one_of: false });
        summary.note(&Event::Acquired { key: &key, fence: FencingToken(1), waited: Duration::ZERO });
        summary.renewals = 3;
        summary.held = Some(Duration::from_secs(2));
        summary
    }

    #[test]
    fn runs_add_up_over_files() -> io::Result<()> {
        let mut metrics = Metrics::default();
        metrics.add(&summary("a\"b"));
        let mut metrics = Metrics::parse(&metrics.text())?;
        metrics.add(&summary("a\"b"));
        let text = metrics.text();
        for line in [
            "redlock_renewals_total{key=\"a\\\"b\"} 6",
            "redlock_hold_seconds_bucket{key=\"a\\\"b\",le=\"1\"} 0",
            "redlock_hold_seconds_bucket{key=\"a\\\"b\",le=\"5\"} 2",
            "redlock_hold_seconds_bucket{key=\"a\\\"b\",le=\"+Inf\"} 2",
            "redlock_hold_seconds_sum{key=\"a\\\"b\"} 4",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} in {text}");
        }
        Ok(())
    }

    #[test]
    fn keys_without_end_are_counted_together() {
        let mut metrics = Metrics::default();
        (0..MOST_KEYS + 50).for_each(|number| metrics.add(&summary(&format!("key-{number}"))));
        let text = metrics.text();
        assert!(text.contains("redlock_renewals_total{key=\"(other)\"} 150"), "{text}");
        assert_eq!(text.matches("redlock_renewals_total{").count(), MOST_KEYS + 1);
    }

    #[test]
    fn a_file_of_others_is_left_alone() {
        assert!(Metrics::parse("up 1\n").is_err());
        assert!(Metrics::parse("# a comment\n").is_err());
        assert!(Metrics::parse("# HELP redlock_x y\nredlock_x{key=\"a b\"} 1\n").is_ok());
        assert!(Metrics::parse("hello").is_err());
    }
}
