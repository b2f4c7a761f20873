//! What takes a moment on an idle machine takes longer on a busy or a slow one.
//!
//! flock(1) tells how much longer, a program that is not under test: where redlock itself grows slow, the limits of the tests
//! stay. How long redlock takes beside flock(1) is measured by `tests/bench/run gate`.

use std::cell::Cell;
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use super::Folder;

/// flock(1) takes no longer than this on an idle machine, beside other tests: three times what it takes alone.
const IDLE: Duration = Duration::from_millis(7);
/// From one measurement to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// A machine that was slow this long ago may be so again, and a test that takes long may have met the worst of it.
const LATELY: Duration = Duration::from_secs(60);

/// A machine that stood still for a while is not slow for ever: no test waits for minutes because of that.
const SLOWEST: f64 = 20.0;

/// An idle machine may stand still as well, for most of a second where it is a virtual one. A lease bears that for a third
/// of its time, so none that a test wants renewed is shorter than 900 ms.
const FASTEST: f64 = 2.0;

/// When flock(1) ended, and how long it took.
static MEASURED: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

thread_local! {
    /// The highest pace by which a time of this test was stretched: what waits for that time needs as much.
    static STRETCHED: Cell<f64> = const { Cell::new(1.0) };
}

/// Measures from now on, if nobody does so far.
pub fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // The first one may have to read the program.
        measure();
        MEASURED.lock().expect("what was measured").clear();
        measure();
        thread::spawn(|| {
            loop {
                thread::sleep(INTERVAL);
                measure();
            }
        });
    });
}

/// How much slower than an idle machine this one was lately, at its worst: 1 to [`SLOWEST`].
fn pace() -> f64 {
    watch();
    let measured = MEASURED.lock().expect("what was measured");
    let lately = measured.iter().filter(|(end, _)| end.elapsed() < LATELY + INTERVAL).map(|(_, took)| *took);
    let last = measured.last().map(|(end, _)| end.elapsed().saturating_sub(INTERVAL));
    let slowest = lately.chain(last).max().unwrap_or_default();
    (slowest.as_secs_f64() / IDLE.as_secs_f64()).clamp(1.0, SLOWEST)
}

fn measure() {
    let folder = Folder::new();
    let mut command = Command::new("flock");
    command.arg("-n").arg(folder.path("pace")).arg("true");
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    // On a machine without room for a process it tells nothing.
    if status.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        panic!("flock(1) is installed; it is in util-linux");
    }
    let mut measured = MEASURED.lock().expect("what was measured");
    measured.retain(|(end, _)| end.elapsed() < LATELY);
    measured.push((Instant::now(), start.elapsed()));
}

/// As long as this on an idle machine.
pub fn slowed(millis: u64) -> Duration {
    let pace = pace().max(FASTEST);
    STRETCHED.set(STRETCHED.get().max(pace));
    Duration::from_millis(millis).mul_f64(pace)
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
    took < limit || took < limit.mul_f64(pace().max(STRETCHED.get()))
}

/// Whether that time has not passed since `start`.
pub fn is_within(limit: Duration, start: Instant) -> bool {
    fits(start.elapsed(), limit)
}

#[track_caller]
pub fn within(limit: Duration, start: Instant) {
    assert!(is_within(limit, start), "took {:?}, not within {limit:?}", start.elapsed());
}
