//! What takes a moment on an idle machine takes longer on a busy or a slow one.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Folder;

/// The slowest of a few short runs takes no longer than this on an idle machine, beside other tests.
const IDLE: Duration = Duration::from_millis(20);
/// How long a measurement is good for.
const FRESH: Duration = Duration::from_secs(5);

/// How much slower than an idle machine this one is right now; at least 1.
pub fn pace() -> f64 {
    static LAST: Mutex<Option<(Instant, f64)>> = Mutex::new(None);
    let mut last = LAST.lock().expect("the last measurement");
    match *last {
        Some((when, pace)) if when.elapsed() < FRESH => pace,
        _ => {
            let pace = measured();
            *last = Some((Instant::now(), pace));
            pace
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
    let slowest = (0..3).map(|_| run()).max().unwrap_or_default();
    (slowest.as_secs_f64() / IDLE.as_secs_f64()).max(1.0)
}

/// As long as this on an idle machine.
pub fn slowed(millis: u64) -> Duration {
    Duration::from_millis(millis).mul_f64(pace())
}

/// A TTL for the command line: this many milliseconds on an idle machine. For leases that a test wants renewed.
pub fn ttl(millis: u64) -> String {
    format!("{}ms", slowed(millis).as_millis())
}

/// Panics when more time than `limit`, or what is as long on this machine, has passed since `start`.
#[track_caller]
pub fn within(limit: Duration, start: Instant) {
    let took = start.elapsed();
    assert!(took < limit || took < limit.mul_f64(pace()), "took {took:?}, not within {limit:?}");
}
