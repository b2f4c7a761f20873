//! What takes a moment on an idle machine takes longer on a busy or a slow one.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Folder;

/// The slowest of a few short runs takes no longer than this on an idle machine, beside other tests.
const IDLE: Duration = Duration::from_millis(40);
/// How long a measurement is good for.
const FRESH: Duration = Duration::from_secs(5);

/// When it was measured last, what, and the highest of all.
static MEASURED: Mutex<Option<(Instant, f64, f64)>> = Mutex::new(None);

/// How much slower than an idle machine this one is: now, and at its worst. At least 1.
fn pace() -> (f64, f64) {
    let mut last = MEASURED.lock().expect("the last measurement");
    match *last {
        Some((when, now, worst)) if when.elapsed() < FRESH => (now, worst),
        _ => {
            let now = measured();
            let worst = last.map_or(now, |(_, _, worst)| worst.max(now));
            *last = Some((Instant::now(), now, worst));
            (now, worst)
        }
    }
}

fn measured() -> f64 {
    let folder = Folder::new();
    let store = format!("local:{}", folder.path("locks.db").display());
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
        command.args(["run", "-k", "pace", "-S", &store, "--", "true"]).env("HOME", "/nonexistent");
        let start = Instant::now();
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        start.elapsed()
    };
    // The first one may have to read the program.
    let slowest = (0..4).map(|_| run()).skip(1).max().unwrap_or_default();
    (slowest.as_secs_f64() / IDLE.as_secs_f64()).max(1.0)
}

/// As long as this on an idle machine.
pub fn slowed(millis: u64) -> Duration {
    Duration::from_millis(millis).mul_f64(pace().0)
}

/// A TTL for the command line: this many milliseconds on an idle machine. For leases that a test wants renewed.
pub fn ttl(millis: u64) -> String {
    in_ms(slowed(millis))
}

pub fn in_ms(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Whether something took no longer than `limit`, or what is as long on this machine.
pub fn fits(took: Duration, limit: Duration) -> bool {
    took < limit || took < limit.mul_f64(pace().1)
}

/// Whether that time has not passed since `start`.
pub fn is_within(limit: Duration, start: Instant) -> bool {
    fits(start.elapsed(), limit)
}

#[track_caller]
pub fn within(limit: Duration, start: Instant) {
    assert!(is_within(limit, start), "took {:?}, not within {limit:?}", start.elapsed());
}
